"""Kept prompts: KV that outlives the server, so that a conversation goes on after a restart without a prefill.

A file holds one prompt: a line of JSON (whose it is, how many tokens, the KV's shape, a digest of what follows), the
tokens as int64 and the KV as float32, little-endian.
"""

from __future__ import annotations

import json
import logging
import math
import re
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from chipwise.engine.session import Session, saves_slots
from chipwise.errors import ChipwiseError, InputError
from chipwise.files import read_bounded, sha256_bytes, write_atomic, writing
from chipwise.serve.kv.kv_contents import KvContents

_SUFFIX = ".kv"
_DIGITS = 32
_NAME = re.compile(rf"[0-9a-f]{{{_DIGITS}}}{re.escape(_SUFFIX)}")
_FORMAT = 1
# More than any model's KV of its longest context here; a file beyond it is none of ours.
_MAX_BYTES = 8 << 30

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Head:
    format: int
    identity: str
    tokens: int
    shape: tuple[int, ...]
    sha256: str

    @classmethod
    def read(cls, line: bytes) -> _Head:
        """The head that a line of JSON holds.

        Raises:
            ValueError: It is none, or its numbers are none that ``save`` writes.
        """
        try:
            fields = json.loads(line)
            head = cls(**{**fields, "shape": tuple(fields["shape"])})
        except (TypeError, KeyError, RecursionError) as e:
            raise ValueError(f"no head ({e})") from e
        if not all(type(size) is int and size >= 1 for size in (head.tokens, *head.shape)):
            raise ValueError(f"{head.tokens} tokens in the shape {head.shape}")
        return head


def make_folder(folder: Path) -> None:
    """Make the folder, for its owner alone, and see that files can be written there.

    Raises:
        OutputError: It cannot be made, or takes no files.
    """
    with writing(folder):
        # What people said is nobody else's to read.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


def save(folder: Path, identity: str, session: Session, contents: KvContents) -> int:
    """Keep the prompts that lie in the slots; what else was kept there goes.

    Args:
        folder: Where; made if it is not there.
        identity: What the KV depends on: the model, the runtime, the machine.
        session: The session, between two steps.
        contents: What its slots hold.

    Returns:
        How many were written.

    Raises:
        OutputError: The folder cannot be written, or the disk is full. What was there before is whole.
    """
    if not saves_slots(session):
        return 0
    make_folder(folder)
    kept = set()
    for slot, tokens in contents.prompts():
        kv = np.ascontiguousarray(session.save_slot(slot, len(tokens)), "<f4")
        body = np.ascontiguousarray(tokens, "<i8").tobytes() + kv.tobytes()
        head = _Head(_FORMAT, identity, len(tokens), kv.shape, sha256_bytes(body))
        name = sha256_bytes(identity.encode() + body[: 8 * len(tokens)])[:_DIGITS] + _SUFFIX
        # The folder may have been made by others, for anybody.
        write_atomic(folder / name, json.dumps(asdict(head)).encode() + b"\n" + body, mode=0o600)
        kept.add(name)
    for path in _ours(folder):
        if path.name not in kept:
            with writing(path):
                path.unlink(missing_ok=True)
    return len(kept)


def restore(folder: Path, identity: str, session: Session, contents: KvContents) -> int:
    """Put kept prompts back into slots, before the first request.

    One that is not whole, or not of this model, is named in the log and left out.

    Returns:
        How many are in the slots.
    """
    if not saves_slots(session) or not folder.is_dir():
        return 0
    # The first slots are taken by the first requests: fill them from the other end.
    free, count = list(range(session.n_slots)), 0
    for tokens, kv in _whole(folder, identity, session):
        if not free:
            break
        slot = free.pop()
        try:
            session.load_slot(slot, kv)
        except ChipwiseError as e:
            _logger.warning("a kept prompt is left out: %s", e)
            continue
        contents.put(slot, tokens)
        count += 1
    return count


def _ours(folder: Path) -> list[Path]:
    """What was written by ``save``. Another program's files may end alike, and are neither read nor removed."""
    return sorted(path for path in folder.glob(f"*{_SUFFIX}") if _NAME.fullmatch(path.name))


def _whole(
    folder: Path, identity: str, session: Session
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]]:
    for path in _ours(folder):
        try:
            yield _read(path, identity, session)
        except InputError as e:
            _logger.warning("a kept prompt is left out: %s", e)


def _read(path: Path, identity: str, session: Session) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    where = str(path)
    line, _, body = read_bounded(path, _MAX_BYTES).partition(b"\n")
    try:
        head = _Head.read(line)
    except ValueError as e:
        raise InputError("no kept prompt", where=where, remedy="delete it") from e
    if (head.format, head.identity) != (_FORMAT, identity):
        raise InputError("it is another model's, runtime's or machine's", where=where, remedy="delete it")
    # Whole numbers of Python's: they may be of any size.
    if sha256_bytes(body) != head.sha256 or len(body) != 8 * head.tokens + 4 * math.prod(head.shape):
        raise InputError("it is truncated or altered", where=where, remedy="delete it")
    tokens = np.frombuffer(body, "<i8", head.tokens).astype(np.int64)
    if head.tokens > session.max_context or tokens.min() < 0 or tokens.max() >= session.vocab_size:
        raise InputError(
            f"its {head.tokens} tokens do not fit a slot", where=where, remedy="serve with a longer context"
        )
    kv = np.frombuffer(body, "<f4", offset=8 * head.tokens).reshape(head.shape).astype(np.float32)
    return tokens, kv
