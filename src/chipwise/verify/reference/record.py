"""Record: the logits of every step that a session took, in one file.

The file is a mark, the rows of logits (float32, little-endian, each different row once), an index in JSON, the index's
length (8 bytes) and the SHA-256 of all before it (32 bytes). A file that was cut or altered is no record.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from chipwise.engine import Batch, Session
from chipwise.errors import RecordError
from chipwise.files import CHUNK_BYTES

MARK = b"CWREF\x00\x01\n"
"""The first bytes of a record; the last but one number is the version of its form."""

_DIGEST_BYTES = 32
_LENGTH_BYTES = 8
_TAIL_BYTES = _LENGTH_BYTES + _DIGEST_BYTES
_MAX_INDEX_BYTES = 1 << 28


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes:
        asked: Digest of its batch.
        rows: Numbers of its rows of logits, in order.
        shape: Shape of its logits.
    """

    asked: str
    rows: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Record:
    """What a session answered.

    Attributes:
        n_slots: The session's slots; the next three likewise.
        max_context: Tokens a slot held.
        vocab_size: Length of a row of logits.
        max_step_tokens: Tokens a row of one step brought at most.
        recorded: When, ISO 8601 in UTC.
        steps: Its steps, in order.
        rows: float32 ``[rows, vocab_size]``, mapped from the file.
        notes: What was noted beside it, as JSON holds it.
    """

    n_slots: int
    max_context: int
    vocab_size: int
    max_step_tokens: int
    recorded: str
    steps: tuple[Step, ...]
    rows: npt.NDArray[np.float32]
    notes: dict[str, Any]


def asked(batch: Batch) -> str:
    """The digest of a batch."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(f"{batch.first_slot} {batch.logits} {batch.tokens.shape}".encode())
    digest.update(np.ascontiguousarray(batch.tokens, np.int64).tobytes())
    digest.update(np.ascontiguousarray(batch.past, np.int64).tobytes())
    return digest.hexdigest()


class RecordWriter:
    """Writes a record as its steps come.

    A row that was seen before, as of slots whose answer has ended, is written once.

    Args:
        stream: Where to, open for writing and at its start.
        max_bytes: What may be written at most; a step beyond it raises OSError.
    """

    def __init__(self, stream: IO[bytes], *, max_bytes: int) -> None:
        self._stream, self._max_bytes = stream, max_bytes
        self._digest = hashlib.sha256()
        self._seen: dict[bytes, int] = {}
        self._steps: list[tuple[str, list[int], list[int]]] = []
        self._written = 0
        self._write(MARK)

    def add(self, batch: Batch, logits: npt.NDArray[np.float32]) -> None:
        """Add a step and its logits.

        Raises:
            OSError: The disk is full, or the record too large.
        """
        rows = np.ascontiguousarray(logits.reshape(-1, logits.shape[-1]), "<f4")
        numbers = []
        for row in rows:
            data = row.tobytes()
            name = hashlib.blake2b(data, digest_size=16).digest()
            if name not in self._seen:
                self._write(data)
                self._seen[name] = len(self._seen)
            numbers.append(self._seen[name])
        self._steps.append((asked(batch), numbers, list(logits.shape)))

    def finish(self, session: Session, recorded: str, notes: Mapping[str, Any]) -> None:
        """Write the index of what was added, taken from a session, and what shows that all of it is there.

        Args:
            session: The session.
            recorded: When, ISO 8601 in UTC.
            notes: What to keep beside it, as JSON holds it.

        Raises:
            OSError: The disk is full.
        """
        fields = {
            "n_slots": session.n_slots,
            "max_context": session.max_context,
            "vocab_size": session.vocab_size,
            "max_step_tokens": session.max_step_tokens,
            "recorded": recorded,
            "notes": dict(notes),
            "steps": self._steps,
        }
        index = json.dumps(fields).encode()
        self._write(index)
        self._write(len(index).to_bytes(_LENGTH_BYTES, "little"))
        self._stream.write(self._digest.digest())
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def _write(self, data: bytes) -> None:
        self._written += len(data)
        if self._written > self._max_bytes:
            raise OSError(f"larger than the {self._max_bytes} bytes it may take")
        self._digest.update(data)
        self._stream.write(data)


class OpenRecord:
    """A record in a file, which is mapped while it is open.

    Args:
        path: The file.

    Raises:
        RecordError: It is no whole record.
        OSError: It cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.record = _read(path)

    def __enter__(self) -> Record:
        return self.record

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        del self.record  # the file goes once nothing maps it


def _read(path: Path) -> Record:
    size = path.stat().st_size
    with path.open("rb") as stream:
        if stream.read(len(MARK)) != MARK or size < len(MARK) + _TAIL_BYTES:
            raise RecordError("not a record", where=str(path))
        if _digest(stream, size - _DIGEST_BYTES) != stream.read(_DIGEST_BYTES):
            raise RecordError("cut or altered", where=str(path))
        stream.seek(size - _TAIL_BYTES)
        length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
        end = size - _TAIL_BYTES - length
        if end < len(MARK) or length > _MAX_INDEX_BYTES:
            raise RecordError("its index has no place in it", where=str(path))
        stream.seek(end)
        index = stream.read(length)
    try:
        return _record(json.loads(index), path, end - len(MARK))
    except (ValueError, KeyError, TypeError) as e:
        raise RecordError(f"its index is malformed ({e})", where=str(path)) from e


def _digest(stream: IO[bytes], end: int) -> bytes:
    """The digest of a stream's first ``end`` bytes; it is left there."""
    digest = hashlib.sha256()
    stream.seek(0)
    while count := min(CHUNK_BYTES, end - stream.tell()):
        digest.update(stream.read(count))
    return digest.digest()


def _record(fields: dict[str, Any], path: Path, rows_bytes: int) -> Record:
    vocab_size = int(fields["vocab_size"])
    if vocab_size < 1 or rows_bytes % (4 * vocab_size):
        raise ValueError("no whole number of rows")
    count = rows_bytes // (4 * vocab_size)
    steps = tuple(Step(str(a), tuple(map(int, r)), tuple(map(int, s))) for a, r, s in fields["steps"])
    if any(not 0 <= row < count for step in steps for row in step.rows):
        raise ValueError("a row that is not there")
    if any(math.prod(step.shape) != len(step.rows) * vocab_size for step in steps):
        raise ValueError("a step of another shape than its rows")
    shape = (count, vocab_size)
    rows: npt.NDArray[np.float32] = (
        np.memmap(path, "<f4", "r", len(MARK), shape) if count else np.zeros(shape, np.float32)
    )
    return Record(
        int(fields["n_slots"]), int(fields["max_context"]), vocab_size, int(fields["max_step_tokens"]),
        str(fields["recorded"]), steps, rows, dict(fields["notes"]),
    )  # fmt: skip
