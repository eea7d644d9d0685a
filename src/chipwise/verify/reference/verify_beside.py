"""Verification beside a reference whose answers may be kept from before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from chipwise.engine import Session
from chipwise.errors import RecordError
from chipwise.model.tokenizer import Tokenizer
from chipwise.report.quality import Quality
from chipwise.verify.case import Case
from chipwise.verify.generate import Progress, Prompt
from chipwise.verify.reference.key import reference_key
from chipwise.verify.reference.record import RecordWriter
from chipwise.verify.reference.recording_session import RecordingSession
from chipwise.verify.reference.replayed_session import ReplayedSession
from chipwise.verify.reference.store import ReferenceStore
from chipwise.verify.run import verify

KNOWN_ENGINES = frozenset({"onnxruntime"})
"""Engines all of whose versions are in the key. What others run on, a driver or a library of a board's, is not."""


@dataclass(frozen=True)
class Reference:
    """A reference that is opened only if it must run.

    Attributes:
        open: Opens its session, and closes it at the end.
        engine: The name of its engine.
        content: What it is, and how it is opened: part of the key of its answers.
    """

    open: Callable[[], AbstractContextManager[Session]]
    engine: str
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Beside:
    """What verification beside a reference gave.

    Attributes:
        quality: What was measured.
        answers: Where the reference's answers came from, in words.
        cached: Whether they came from the store.
    """

    quality: Quality
    answers: str
    cached: bool = False


def verify_beside(
    cases: Sequence[Case],
    prompts: Sequence[Prompt],
    tokenizer: Tokenizer,
    *,
    candidate: Session,
    reference: Reference,
    store: ReferenceStore | None,
    progress: Progress | None = None,
) -> Beside:
    """Run the cases on both, as ``verify`` does; the reference's part is read from the store if it is there.

    What is kept are the logits of each of its steps, so that both ways give the same figures to the last bit.

    Args:
        cases: The cases.
        prompts: Their token ids, in the same order.
        tokenizer: The tokenizer of both.
        candidate: The model as it will run; it is always run.
        reference: The model as it was.
        store: Where its answers are kept; None keeps none.
        progress: Told the cases done.

    Raises:
        EngineError: A runtime failed, or the two have different vocabularies.
        QueryFileError: No case fits the context.
    """

    def against(session: Session) -> Quality:
        return verify(cases, prompts, tokenizer, candidate=candidate, reference=session, progress=progress)

    if store is None or reference.engine not in KNOWN_ENGINES:
        why = "the cache was not to be used" if store is None else f"what {reference.engine} runs on is not known"
        with reference.open() as session:
            return Beside(against(session), f"computed; not kept: {why}")
    key = reference_key(reference.content, prompts, tokenizer.special.eos_ids, candidate)
    found = store.find(key)
    if found is not None:
        with found as record:
            try:
                return Beside(against(ReplayedSession(record)), f"from the cache, computed {record.recorded}", True)
            except RecordError:
                # It was taken through other steps than this version takes.
                store.discard(key)
    return _computed(reference, store, key, against)


def _computed(reference: Reference, store: ReferenceStore, key: str, against: Callable[[Session], Quality]) -> Beside:
    """Run the reference, and keep what it answers if that can be written."""
    with ExitStack() as stack:
        session = stack.enter_context(reference.open())
        try:
            part = stack.enter_context(store.part(key))
            writer = RecordWriter(part, max_bytes=store.max_bytes)
        except OSError as e:
            return Beside(against(session), _not_kept(e))
        recording = RecordingSession(session, writer)
        quality = against(recording)
        if recording.failure is not None:
            return Beside(quality, _not_kept(recording.failure))
        try:
            writer.finish(recording, datetime.now(timezone.utc).isoformat(timespec="seconds"))
            store.keep(key, part)
        except OSError as e:
            return Beside(quality, _not_kept(e))
        return Beside(quality, "computed, and kept")


def _not_kept(error: OSError) -> str:
    return f"computed; not kept: {error.strerror or error}"
