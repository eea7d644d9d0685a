"""Verification beside a reference whose answers may be kept from before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
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
from chipwise.verify.speed import Speed, measure_speed

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
        speed: How fast the candidate was; None if that was not measured.
        reference_speed: How fast the reference was when it ran, on this machine; None likewise.
    """

    quality: Quality
    answers: str
    cached: bool = False
    speed: Speed | None = None
    reference_speed: Speed | None = None


def verify_beside(
    cases: Sequence[Case],
    prompts: Sequence[Prompt],
    tokenizer: Tokenizer,
    *,
    candidate: Session,
    reference: Reference,
    store: ReferenceStore | None,
    hardware: str | None = None,
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
        hardware: The machine, to measure the speed of both; None measures none, where it would say nothing.
        progress: Told the cases done.

    Raises:
        EngineError: A runtime failed, or the two have different vocabularies.
        QueryFileError: No case fits the context.
    """
    run = _Run(cases, prompts, tokenizer, candidate, hardware, progress)
    found = _found(reference, store, run)
    return replace(found, speed=run.speed(candidate))


@dataclass(frozen=True)
class _Run:
    """What is the same wherever the reference's answers come from."""

    cases: Sequence[Case]
    prompts: Sequence[Prompt]
    tokenizer: Tokenizer
    candidate: Session
    hardware: str | None
    progress: Progress | None

    def against(self, reference: Session) -> Quality:
        return verify(
            self.cases, self.prompts, self.tokenizer,
            candidate=self.candidate, reference=reference, progress=self.progress,
        )  # fmt: skip

    def speed(self, session: Session) -> Speed | None:
        return measure_speed(session, self.hardware) if self.hardware else None

    def computed(self, reference: Session, why: str) -> Beside:
        return Beside(self.against(reference), f"computed; not kept: {why}", reference_speed=self.speed(reference))


def _found(reference: Reference, store: ReferenceStore | None, run: _Run) -> Beside:
    if store is None or reference.engine not in KNOWN_ENGINES:
        why = "the cache was not to be used" if store is None else f"what {reference.engine} runs on is not known"
        with reference.open() as session:
            return run.computed(session, why)
    # Speeds are kept beside the answers: a run that is to tell them does not take those that have none.
    content = {**reference.content, "timed": run.hardware}
    key = reference_key(content, run.prompts, run.tokenizer.special.eos_ids, run.candidate)
    kept = store.find(key)
    if kept is not None:
        with kept as record:
            try:
                quality = run.against(ReplayedSession(record))
                answers = f"from the cache, computed {record.recorded}"
                return Beside(quality, answers, True, reference_speed=Speed.from_dict(record.notes.get("speed")))
            except RecordError:
                # It was taken through other steps than this version takes.
                store.discard(key)
    return _computed(reference, store, key, run)


def _computed(reference: Reference, store: ReferenceStore, key: str, run: _Run) -> Beside:
    """Run the reference, and keep what it answers if that can be written."""
    with ExitStack() as stack:
        session = stack.enter_context(reference.open())
        try:
            part = stack.enter_context(store.part(key))
            writer = RecordWriter(part, max_bytes=store.max_bytes)
        except OSError as e:
            return run.computed(session, e.strerror or str(e))
        recording = RecordingSession(session, writer)
        quality = run.against(recording)
        speed = run.speed(session)
        failure = recording.failure
        if failure is None:
            try:
                notes = {"speed": speed.to_dict() if speed else None}
                writer.finish(recording, datetime.now(timezone.utc).isoformat(timespec="seconds"), notes)
                store.keep(key, part)
            except OSError as e:
                failure = e
        why = "" if failure is None else failure.strerror or str(failure)
        answers = f"computed; not kept: {why}" if failure else "computed, and kept"
        return Beside(quality, answers, reference_speed=speed)
