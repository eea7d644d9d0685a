from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as FastTokenizer
from tokenizers import models

from chipwise.background import in_background
from chipwise.bundle import BundleWriter, EngineSpec, bundle, open_bundle
from chipwise.bundle.layout import digest_line
from chipwise.bundle.manifest import FORMAT_VERSION
from chipwise.errors import BundleError, EngineError, InputError
from chipwise.files import sha256_bytes
from chipwise.model.chat_template import ChatTemplate
from chipwise.model.tokenizer import SpecialTokens, Tokenizer
from tests.bundle.fakes import FakeEngine, a_manifest, a_self_test, write_bundle


@pytest.fixture
def built(tmp_path: Path) -> Path:
    return write_bundle(tmp_path / "b")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    fake = FakeEngine()
    monkeypatch.setattr(bundle, "get_engine", {"fake": fake}.__getitem__)
    return fake


def contents(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def stored(built: Path, role: str) -> Path:
    return open_bundle(built).files[role]


def seal(built: Path, manifest: bytes) -> None:
    """What an attacker without a signing key could do: a new manifest with a digest that fits."""
    (built / "manifest.json").write_bytes(manifest)
    (built / "manifest.sha256").write_bytes(digest_line(sha256_bytes(manifest)))


def test_round_trip(built: Path) -> None:
    opened = open_bundle(built)
    assert opened.manifest.name == "tiny"
    assert opened.manifest.self_test == a_self_test()
    assert opened.files["weights"].read_bytes() == bytes(range(100))
    assert opened.files["weights"].name.encode() in opened.files["decoder"].read_bytes()
    assert opened.manifest.report_sha256 == hashlib.sha256(b'{"fine": true}').hexdigest()
    assert opened.tokenizer is None
    assert opened.chat_template is None


def test_tokenizer_and_template_come_back(tmp_path: Path) -> None:
    fast = FastTokenizer(models.WordLevel({"on": 0, "off": 1, "?": 2}, unk_token="?"))
    template = ChatTemplate("{{ messages[0].content }}开", bos_token="<s>", eos_token="</s>")
    with BundleWriter(tmp_path / "b") as writer:
        writer.add_tokenizer(Tokenizer(fast, SpecialTokens(None, (1,), None, False)))
        writer.add_chat_template(template)
        writer.commit(a_manifest(tensors={}))
    opened = open_bundle(tmp_path / "b")
    assert opened.tokenizer is not None
    assert opened.chat_template is not None
    assert opened.tokenizer.encode("off") == [1]
    assert opened.tokenizer.special.eos_ids == (1,)
    assert opened.chat_template.to_dict() == template.to_dict()


def test_a_chat_template_that_is_none(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "b") as writer:
        writer.add_bytes("chat_template", b'{"source": 3}', ".json")
        writer.commit(a_manifest(tensors={}))
    with pytest.raises(BundleError, match="no chat template"):
        _ = open_bundle(tmp_path / "b").chat_template


def test_a_moved_bundle_opens(built: Path, tmp_path: Path) -> None:
    moved = built.rename(tmp_path / "elsewhere")
    (tmp_path / "link").symlink_to(moved)
    assert open_bundle(moved).manifest == open_bundle(tmp_path / "link").manifest


@pytest.mark.parametrize("name", ["none", "file"])
def test_no_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BundleError, match="no such folder" if name == "none" else "not a folder"):
        open_bundle(tmp_path / name)


@pytest.mark.parametrize("name", ["n" * 300, "n" * 100_000, "a\0b"])
def test_a_path_that_the_system_does_not_take_is_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(BundleError, match=r"such folder|cannot be read") as error:
        open_bundle(tmp_path / name)
    assert len(str(error.value)) < 400


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look anywhere")
def test_a_folder_that_may_not_be_entered(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(0o000)
    with pytest.raises(BundleError, match=r"cannot be read .Permission denied"):
        open_bundle(tmp_path / "closed" / "bundle")


def test_a_folder_that_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"no bundle: it has no manifest\.json; name a folder"):
        open_bundle(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundle(tmp_path_factory.mktemp("shared") / "b")


@settings(max_examples=300)
@given(st.data())
def test_any_changed_byte_of_any_file_is_found(shared: Path, data: st.DataObject) -> None:
    victim = data.draw(st.sampled_from(contents(shared)), label="file")
    whole = victim.read_bytes()
    content = bytearray(whole)
    at = data.draw(st.integers(0, len(content) - 1), label="at")
    content[at] ^= data.draw(st.integers(1, 255), label="flip")
    victim.write_bytes(content)
    try:
        with pytest.raises(BundleError):
            open_bundle(shared)
    finally:
        victim.write_bytes(whole)
    open_bundle(shared)


@pytest.mark.parametrize("index", range(5))
def test_any_file_cut_short_emptied_or_lengthened_is_found(built: Path, index: int) -> None:
    victim = contents(built)[index]
    whole = victim.read_bytes()
    for content in (whole[:-1], b"", whole + b"\0", whole[: len(whole) // 2]):
        victim.write_bytes(content)
        with pytest.raises(BundleError) as caught:
            open_bundle(built)
        assert "\n" not in str(caught.value)
    victim.write_bytes(whole)
    assert victim in {*open_bundle(built).files.values(), *built.iterdir()}


@pytest.mark.parametrize("what", ["manifest.json", "manifest.sha256", "weights", "decoder", "files"])
def test_a_missing_file_is_named(built: Path, what: str) -> None:
    place = stored(built, what) if what in ("weights", "decoder") else built / what
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    with pytest.raises(BundleError, match=place.name):
        open_bundle(built)


def test_a_document_may_lack_on_a_device(built: Path) -> None:
    whole = open_bundle(built)
    (built / "report.json").unlink()
    assert open_bundle(built).manifest == whole.manifest


def test_an_extra_file_among_the_checked_is_refused(built: Path) -> None:
    (built / "files" / "external.data").write_bytes(b"x")
    with pytest.raises(BundleError, match=r"external\.data: not in the manifest; remove it"):
        open_bundle(built)


def test_a_note_beside_the_manifest_is_nobodys_business(built: Path) -> None:
    (built / "NOTES.txt").write_text("board 3")
    assert "NOTES.txt" not in {path.name for path in open_bundle(built).files.values()}


def test_links_are_refused(built: Path, tmp_path: Path) -> None:
    weights = stored(built, "weights")
    moved = weights.rename(tmp_path / "outside.bin")
    weights.symlink_to(moved)
    with pytest.raises(BundleError, match="a link"):
        open_bundle(built)
    weights.unlink()
    moved.rename(weights)
    (built / "files").rename(tmp_path / "files")
    (built / "files").symlink_to(tmp_path / "files")
    with pytest.raises(BundleError, match="a link"):
        open_bundle(built)


def test_a_folder_or_an_lfs_pointer_in_place_of_a_file(built: Path) -> None:
    weights = stored(built, "weights")
    weights.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 100\n")
    with pytest.raises(BundleError, match=r"Git LFS pointer.*git lfs pull"):
        open_bundle(built)
    weights.unlink()
    weights.mkdir()
    with pytest.raises(BundleError, match="not a file"):
        open_bundle(built)


def test_what_is_missing_comes_with_what_to_do(built: Path) -> None:
    with pytest.raises(BundleError, match="no such folder; name a folder `chipwise build` made"):
        open_bundle(built / "none")
    (built / "manifest.sha256").unlink()
    with pytest.raises(BundleError, match=r"manifest\.sha256: no such file; copy or build the bundle again"):
        open_bundle(built)


@pytest.mark.parametrize("name", ["../../secret", "/etc/hostname", "../manifest.json"])
def test_a_resealed_manifest_cannot_reach_outside(built: Path, name: str) -> None:
    fields = json.loads((built / "manifest.json").read_bytes())
    fields["files"]["weights"]["file"] = name
    seal(built, json.dumps(fields).encode())
    with pytest.raises(BundleError, match="not its digest"):
        open_bundle(built)


def test_a_newer_bundle_asks_to_upgrade(built: Path) -> None:
    fields = json.loads((built / "manifest.json").read_bytes()) | {"format_version": FORMAT_VERSION + 1}
    seal(built, json.dumps(fields).encode())
    with pytest.raises(BundleError, match=r"made by a newer chipwise.*upgrade"):
        open_bundle(built)


def test_open_session_hands_the_engine_its_files_and_options(built: Path, engine: FakeEngine) -> None:
    session = open_bundle(built).open_session(3, 32)
    assert set(engine.files) == {"weights", "decoder"}
    assert engine.options == {"threads": 2}
    assert (session.n_slots, session.max_context) == (3, 32)
    open_bundle(built).open_session(1, 32, threads=1)
    assert engine.options == {"threads": 1}


def test_texts_are_not_the_engines_business(tmp_path: Path, engine: FakeEngine) -> None:
    with BundleWriter(tmp_path / "b") as writer:
        writer.add_bytes("decoder", b"graph", ".onnx")
        writer.add_chat_template(ChatTemplate("x"))
        writer.commit(a_manifest(tensors={}))
    open_bundle(tmp_path / "b").open_session(1, 32)
    assert set(engine.files) == {"decoder"}


def test_a_session_that_fails_its_self_test_is_closed(built: Path, engine: FakeEngine) -> None:
    engine.spoil = lambda logits: logits.fill(0)
    with pytest.raises(BundleError, match="the runtime returned all zeros"):
        open_bundle(built).open_session(1, 32)
    assert [session.closed for session in engine.sessions] == [True]


def test_an_engine_error_in_the_self_test_closes_too(built: Path, engine: FakeEngine) -> None:
    def fail(logits: np.ndarray) -> None:
        raise EngineError("device lost")

    engine.spoil = fail
    with pytest.raises(EngineError, match="device lost"):
        open_bundle(built).open_session(1, 32)
    assert [session.closed for session in engine.sessions] == [True]


def test_the_self_test_is_left_out_only_when_asked(built: Path, engine: FakeEngine) -> None:
    engine.spoil = lambda logits: logits.fill(0)
    session = open_bundle(built).open_session(1, 4, self_test=False)
    assert session is engine.sessions[0]
    assert not engine.sessions[0].closed


def test_a_context_too_short_for_the_self_test(built: Path, engine: FakeEngine) -> None:
    with pytest.raises(InputError, match=r"context of 8 tokens is too short for the self-test; .* at least 9"):
        open_bundle(built).open_session(1, 8)
    assert not engine.sessions


def test_a_context_longer_than_the_model_s(tmp_path: Path, engine: FakeEngine) -> None:
    manifest = a_manifest()
    model = replace(manifest.model, config={**manifest.model.config, "max_positions": 64})
    built = write_bundle(tmp_path / "b", manifest=replace(manifest, model=model))
    with pytest.raises(InputError, match=r"a context of 65 tokens is longer than the model's 64; take .* at most 64"):
        open_bundle(built).open_session(1, 65)
    assert open_bundle(built).open_session(1, 64).max_context == 64


def test_a_bundle_without_a_self_test_opens(tmp_path: Path, engine: FakeEngine) -> None:
    built = write_bundle(tmp_path / "b", manifest=replace(a_manifest(), self_test=None))
    assert open_bundle(built).open_session(1, 2).max_context == 2


def test_an_unknown_engine_is_named(tmp_path: Path) -> None:
    built = write_bundle(tmp_path / "b", manifest=a_manifest(engine=EngineSpec("abacus")))
    with pytest.raises(InputError, match="abacus"):
        open_bundle(built).open_session(1, 32)


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a niceness on Linux alone")
def test_in_the_background_one_thread_of_low_priority_digests(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest, seen = bundle.sha256_file, list[tuple[int, int]]()

    def note(path: Path) -> str:
        task = threading.get_native_id()
        seen.append((task, os.getpriority(os.PRIO_PROCESS, task)))
        return digest(path)

    monkeypatch.setattr(bundle, "sha256_file", note)
    usual = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    files = open_bundle(built).files
    assert {priority for _, priority in seen} == {usual}
    seen.clear()
    with in_background():
        assert open_bundle(built).files == files
    ((task, priority),) = set(seen)
    assert priority > usual
    assert task != threading.get_native_id()
