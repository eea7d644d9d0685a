"""Self-test: a short run whose outcome the build recorded, repeated wherever the bundle is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import numpy.typing as npt

from chipwise.bundle.entries import LogitSample, SelfTest
from chipwise.engine import Batch, Session
from chipwise.engine.known_fault import explained
from chipwise.errors import BundleError

_Logits = npt.NDArray[np.float32]

Turn = Callable[[], AbstractContextManager[None]]
"""What each step of a test runs in: so it waits until it is its turn, if others use the same cores."""

_REMEDY = "the runtime does not compute here what it computed at build time: update it, or build for this machine"


def record_self_test(
    session: Session, prompt: Sequence[int], *, max_tokens: int = 8, samples: int = 8, tolerance: float = 0.5
) -> SelfTest:
    """Run a prompt greedily and keep what came out.

    Args:
        session: The model as the target will run it; slot 0 is overwritten.
        prompt: Token ids of a typical prompt.
        max_tokens: Tokens to generate.
        samples: Logits kept of the first and of the last step: the largest ones, where kernels differ least.
        tolerance: The largest difference allowed on another machine, in logits.

    Raises:
        BundleError: The logits are of no use: all zero, all equal, or not finite.
        EngineError: The runtime failed.
    """
    tokens: list[int] = []
    kept: list[LogitSample] = []
    for step, logits in enumerate(_greedy(session, prompt, tokens, max_tokens)):
        _check_sane(session, logits, step, where="self-test")
        tokens.append(int(logits.argmax()))
        if step in (0, max_tokens - 1):
            top = np.argsort(logits)[-samples:]
            kept += [LogitSample(step, int(token), float(logits[token])) for token in top]
    return SelfTest(tuple(int(token) for token in prompt), tuple(tokens), tuple(kept), tolerance)


def run_self_test(session: Session, test: SelfTest, *, where: str, turn: Turn = nullcontext) -> None:
    """Run the recorded prompt and tokens, and compare.

    The recorded tokens are fed, not the ones chosen here, so that one near tie does not send the run astray.

    Args:
        session: A fresh session; slot 0 is overwritten.
        test: What the build recorded.
        where: The bundle's path, for messages.
        turn: What each step runs in.

    Raises:
        BundleError: The logits are all zero, all equal or not finite, or differ by more than the tolerance.
        EngineError: The runtime failed.
    """
    for step, logits in enumerate(_greedy(session, test.prompt, test.tokens, len(test.tokens), turn)):
        _check_sane(session, logits, step, where=where)
        _check_token(session, logits, step, test, where)
        for sample in test.logits:
            if sample.step == step:
                _check_sample(session, logits, sample, test.tolerance, where)


def _greedy(
    session: Session, prompt: Sequence[int], tokens: Sequence[int], steps: int, turn: Turn = nullcontext
) -> Iterator[_Logits]:
    """The logits after the prompt and after each of ``tokens``, which the caller may fill as it goes."""
    past = 0
    logits = np.empty(0, np.float32)
    for start in range(0, len(prompt), session.max_step_tokens):
        chunk = prompt[start : start + session.max_step_tokens]
        logits = _step(session, chunk, past, turn)
        past += len(chunk)
    yield logits
    for step in range(steps - 1):
        yield _step(session, tokens[step : step + 1], past + step, turn)


def _step(session: Session, tokens: Sequence[int], past: int, turn: Turn) -> _Logits:
    batch = Batch(0, np.array([tokens], np.int64), np.array([past], np.int64))
    with turn():
        logits: _Logits = session.step(batch).logits[0]
    return logits


def _check_sane(session: Session, logits: _Logits, step: int, where: str) -> None:
    if not np.isfinite(logits).all():
        wrong = int((~np.isfinite(logits)).sum())
        known = explained(session, "not_finite")
        raise _failure(f"{wrong} of {logits.size} logits are NaN or infinite{known}", step, where)
    if not logits.any():
        known = explained(session, "zeros")
        raise _failure(
            f"the runtime returned all zeros: one of its kernels does nothing for this model{known}", step, where
        )
    if logits.size > 1 and (logits == logits[0]).all():
        raise _failure(f"the runtime returned the same logit {logits[0]:.4g} for every token", step, where)


def _check_token(session: Session, logits: _Logits, step: int, test: SelfTest, where: str) -> None:
    expected, found = test.tokens[step], int(logits.argmax())
    if expected >= logits.size:
        raise _failure(f"it expects token {expected}, but the model has only {logits.size}", step, where)
    short = float(logits[found] - logits[expected])
    if short > test.tolerance:
        raise _failure(
            f"the runtime chose token {found} instead of {expected}, whose logit is {short:.3g} lower "
            f"(tolerance {test.tolerance:g}){explained(session, 'differs')}",
            step,
            where,
        )


def _check_sample(session: Session, logits: _Logits, sample: LogitSample, tolerance: float, where: str) -> None:
    found = float(logits[sample.token]) if sample.token < logits.size else float("nan")
    if not abs(found - sample.value) <= tolerance:
        raise _failure(
            f"the logit of token {sample.token} is {found:.4g} instead of {sample.value:.4g} (tolerance {tolerance:g})"
            + explained(session, "differs"),
            sample.step,
            where,
        )


def _failure(what: str, step: int, where: str) -> BundleError:
    return BundleError(f"the self-test failed at step {step}: {what}", where=where, remedy=_REMEDY)
