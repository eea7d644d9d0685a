"""Verification of servers: a suite's cases over HTTP, beside a second server if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from chipwise.errors import QueryFileError
from chipwise.report.quality import Quality
from chipwise.verify.case import Case
from chipwise.verify.chat_client import CaseRefusedError
from chipwise.verify.generate import Progress
from chipwise.verify.score import score_texts


class Answers(Protocol):
    """What answers cases."""

    def answer(self, case: Case) -> str:
        """The answer to a case."""
        ...


def verify_served(
    cases: Sequence[Case],
    candidate: Answers,
    *,
    reference: Answers | None = None,
    streams: int = 8,
    progress: Progress | None = None,
) -> Quality:
    """Ask servers for the answers to some cases and score them.

    A case that a server refuses, as it does not fit its context, does not run; the Quality names it.

    Args:
        cases: The cases.
        candidate: The server that is judged.
        reference: The one it is compared with.
        streams: Requests under way at once, for each server.
        progress: Told the cases done.

    Raises:
        InputError: A server is not reached.
        EngineError: A server fails.
        QueryFileError: Every case is refused.
    """
    answers: list[tuple[str | None, str | None]] = []

    def both(case: Case) -> tuple[str | None, str | None]:
        before = _answer(reference, case) if reference else None
        return before, _answer(candidate, case)

    with ThreadPoolExecutor(streams) as pool:
        running = [pool.submit(both, case) for case in cases]
        try:
            for done, future in enumerate(running, 1):
                answers.append(future.result())
                if progress:
                    progress(done, len(cases))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    ran = [a is not None and (reference is None or r is not None) for r, a in answers]
    if cases and not any(ran):
        raise QueryFileError("the server refuses every case", remedy="give shorter cases, or serve a larger context")
    kept = [(case, r, a) for case, (r, a), ok in zip(cases, answers, ran, strict=True) if ok]
    return score_texts(
        [case for case, _, _ in kept],
        [a or "" for _, _, a in kept],
        reference=[r or "" for _, r, _ in kept] if reference else None,
        not_run=[case.id for case, ok in zip(cases, ran, strict=True) if not ok],
    )


def _answer(server: Answers, case: Case) -> str | None:
    try:
        return server.answer(case)
    except CaseRefusedError:
        return None
