from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from chipwise.engine.batch import Batch
from chipwise.engine.null import NullOptions, NullSession
from chipwise.errors import OutputError
from chipwise.serve.kv import kept_prompts
from chipwise.serve.kv.kv_contents import KvContents
from tests.serve.fakes import null_model, says
from tests.serve.kv.test_kv_contents import SYSTEM, sequence
from tests.serve.live import live

OTHER = range(3000, 3080)


def null(n_slots: int = 3, max_context: int = 256) -> NullSession:
    return NullSession(n_slots, max_context, NullOptions(vocab_size=5000))


def filled(*prompts: range) -> tuple[NullSession, KvContents]:
    """A session with a prompt a slot."""
    session, contents = null(), KvContents(3)
    for slot, prompt in enumerate(prompts):
        one = sequence(prompt, slot=slot)
        contents.enter(one, range(0))
        session.step(Batch(slot, one.tokens[None, : one.known], np.array([0])))
        contents.fed(one, 0, one.known)
    return session, contents


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("*"))


def test_prompts_come_back_into_another_session(tmp_path: Path) -> None:
    assert kept_prompts.save(tmp_path / "kept", "m", *filled(SYSTEM, OTHER)) == 2
    session, contents = null(), KvContents(3)
    assert kept_prompts.restore(tmp_path / "kept", "m", session, contents) == 2
    assert {tuple(session.held(slot)) for slot in (1, 2)} == {tuple(SYSTEM), tuple(OTHER)}
    again = sequence(SYSTEM, range(9), slot=0)
    (move,) = contents.enter(again, range(1))
    assert (move.tokens, again.past) == (100, 100)
    assert session.held(move.source) == list(SYSTEM)
    if os.name == "posix":
        assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "kept", *kept(tmp_path / "kept")))


def test_one_that_another_begins_with_and_a_short_one_are_not_kept(tmp_path: Path) -> None:
    assert kept_prompts.save(tmp_path, "m", *filled(SYSTEM, SYSTEM[:80], range(4000, 4020))) == 1


def test_files_of_other_programs_that_end_alike_stay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    others = {"main.kv": b"<Button>:\n", "0123.kv": b"", f"{'g' * 32}.kv": b"{}", f"{'0' * 33}.kv": b"x"}
    for name, content in others.items():
        (tmp_path / name).write_bytes(content)
    kept_prompts.save(tmp_path, "m", *filled(SYSTEM))
    assert kept_prompts.restore(tmp_path, "m", null(), KvContents(3)) == 1
    kept_prompts.save(tmp_path, "m", *filled())
    assert {path.name: path.read_bytes() for path in kept(tmp_path)} == others
    assert not caplog.records


def test_what_is_no_longer_in_a_slot_goes(tmp_path: Path) -> None:
    kept_prompts.save(tmp_path, "m", *filled(SYSTEM))
    before = kept(tmp_path)
    kept_prompts.save(tmp_path, "m", *filled(OTHER))
    assert len(kept(tmp_path)) == 1
    assert kept(tmp_path) != before


def _cut(data: bytes) -> bytes:
    return data[:-1]


def _flip(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def _change_a_token(data: bytes) -> bytes:
    place = data.index(b"\n") + 1
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def _other_fields(data: bytes) -> bytes:
    return json.dumps({"format": 1}).encode() + data[data.index(b"\n") :]


@pytest.mark.parametrize("spoil", [_cut, _flip, _change_a_token, _other_fields, lambda data: b"", lambda data: b"{}\n"])
def test_what_is_not_whole_is_named_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: Callable[[bytes], bytes]
) -> None:
    kept_prompts.save(tmp_path, "m", *filled(SYSTEM, OTHER))
    path = kept(tmp_path)[0]
    path.write_bytes(spoil(path.read_bytes()))
    with caplog.at_level(logging.WARNING):
        assert kept_prompts.restore(tmp_path, "m", null(), KvContents(3)) == 1
    assert str(path) in caplog.text


@pytest.mark.parametrize("field", ["tokens", "shape"])
@pytest.mark.parametrize("value", [None, 0, -1, 1.5, True, "x", [], [0], [-1], [100, 2], [1 << 62] * 2, {}, 10**30, 99])
def test_a_head_whose_numbers_are_wrong_is_left_out_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, field: str, value: object
) -> None:
    """Its digest is right: it is of another program, or somebody made it up."""
    kept_prompts.save(tmp_path, "m", *filled(SYSTEM))
    (path,) = kept(tmp_path)
    head, _, body = path.read_bytes().partition(b"\n")
    path.write_bytes(json.dumps({**json.loads(head), field: value}).encode() + b"\n" + body)
    assert kept_prompts.restore(tmp_path, "m", null(), KvContents(3)) == 0
    path.write_bytes(b"[" * 100_000)
    assert kept_prompts.restore(tmp_path, "m", null(), KvContents(3)) == 0
    assert caplog.text.count(str(path)) == 2


@pytest.mark.parametrize(("identity", "context"), [("another", 256), ("m", 90)])
def test_another_model_or_a_shorter_context_takes_nothing(tmp_path: Path, identity: str, context: int) -> None:
    kept_prompts.save(tmp_path, "m", *filled(SYSTEM))
    assert kept_prompts.restore(tmp_path, identity, null(max_context=context), KvContents(3)) == 0


def test_a_folder_that_is_not_there_holds_nothing_and_one_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    assert kept_prompts.restore(tmp_path / "none", "m", null(), KvContents(3)) == 0
    (tmp_path / "file").touch()
    with pytest.raises(OutputError):
        kept_prompts.save(tmp_path / "file", "m", *filled(SYSTEM))


def test_a_server_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    body = {"prompt": "s" * 100 + "\n", "temperature": 0}
    cached = []
    for _ in range(2):
        with live(null_model(2, next_token=says("ok")), kept_prompts=tmp_path / "kept") as server:
            answer = server.http.post("/v1/completions", json=body).json()
            cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
            assert answer["choices"][0]["text"] == "ok"
            server.server.drain()
            server.thread.join(5)
        server.keep_prompts()
    assert cached == [0, 99]


def test_a_folder_that_takes_no_files_is_found_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "within", Path("/proc/within")):
        with pytest.raises(OutputError, match="cannot write"):
            kept_prompts.make_folder(folder)
    kept_prompts.make_folder(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []
