from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chipwise.engine import Batch
from chipwise.errors import RecordError
from chipwise.verify.reference.record import OpenRecord, RecordWriter
from chipwise.verify.reference.replayed_session import ReplayedSession
from tests.verify.fakes import TinySession


def batch(*tokens: int, past: int = 0, slot: int = 0, whole: bool = False) -> Batch:
    return Batch(slot, np.array([tokens], np.int64), np.array([past], np.int64), "all" if whole else "last")


STEPS = [batch(3, 4, 5, whole=True), batch(6, past=3), batch(7, 8, slot=1), batch(6, past=3)]


def recorded(path: Path) -> list[np.ndarray]:
    session, seen = TinySession(), []
    with path.open("wb") as stream:
        writer = RecordWriter(stream, max_bytes=1 << 20)
        for step in STEPS:
            logits = session.step(step).logits
            writer.add(step, logits)
            seen.append(logits.copy())
        writer.finish(session, "2026-01-01T00:00:00+00:00", {"a": [1]})
    return seen


def test_what_was_recorded_comes_back_to_the_last_bit(tmp_path: Path) -> None:
    seen = recorded(tmp_path / "r")
    with OpenRecord(tmp_path / "r") as record:
        replayed = ReplayedSession(record)
        assert (replayed.n_slots, replayed.max_context, replayed.vocab_size, replayed.max_step_tokens) == (3, 64, 41, 5)
        for step, logits in zip(STEPS, seen, strict=True):
            again = replayed.step(step).logits
            assert again.shape == logits.shape
            assert again.tobytes() == logits.tobytes()
        # Two steps were the same: their row was written once.
        assert len(record.rows) == 5
        assert record.notes == {"a": [1]}


@pytest.mark.parametrize("nth", range(len(STEPS)))
def test_another_step_than_was_recorded_is_refused(tmp_path: Path, nth: int) -> None:
    recorded(tmp_path / "r")
    with OpenRecord(tmp_path / "r") as record:
        replayed = ReplayedSession(record)
        for step in STEPS[:nth]:
            replayed.step(step)
        with pytest.raises(RecordError, match=f"step {nth + 1} is another"):
            replayed.step(batch(9, past=3))


def test_a_step_more_than_was_recorded_is_refused(tmp_path: Path) -> None:
    recorded(tmp_path / "r")
    with OpenRecord(tmp_path / "r") as record:
        replayed = ReplayedSession(record)
        for step in STEPS:
            replayed.step(step)
        with pytest.raises(RecordError):
            replayed.step(STEPS[-1])


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_that_was_cut_or_altered_anywhere_is_no_record(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "r"
    recorded(path)
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        path.write_bytes(whole[:at])
    else:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :])
    with pytest.raises(RecordError):
        OpenRecord(path)


@pytest.mark.parametrize(
    "content", [b"", b"CWREF\x00\x01\n", bytes(100), b"version https://git-lfs.github.com/spec/v1\n"]
)
def test_what_is_no_record(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "r").write_bytes(content)
    with pytest.raises(RecordError):
        OpenRecord(tmp_path / "r")


def test_a_record_takes_no_more_than_it_may(tmp_path: Path) -> None:
    with (tmp_path / "r").open("wb") as stream:
        writer = RecordWriter(stream, max_bytes=200)
        writer.add(STEPS[1], np.zeros((1, 41), np.float32))
        with pytest.raises(OSError, match="larger than the 200 bytes"):
            writer.add(STEPS[2], np.ones((1, 41), np.float32))
