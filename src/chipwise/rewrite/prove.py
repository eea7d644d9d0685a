"""Proof: a model before and after a pass, run on the same inputs, compared output by output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.errors import RewriteError
from chipwise.rewrite.draw import draw_feeds
from chipwise.rewrite.pass_ import Feed, RewriteContext, Tolerance
from chipwise.rewrite.runner import Runner, with_rank

Array = npt.NDArray[Any]
Outputs = dict[str, Array]


@dataclass(frozen=True)
class OutputDifference:
    """How far one output moved, over all samples.

    Attributes:
        output: The output's name.
        max_abs: Largest difference, in the output's unit; infinite where only one side is finite.
        max_rel: ``max_abs`` over the output's largest finite magnitude, before or after.
        cured: Values that were NaN before and are finite after; they count only here.
    """

    output: str
    max_abs: float
    max_rel: float
    cured: int = 0

    def within(self, tolerance: Tolerance) -> bool:
        """Whether the tolerance allows it."""
        if self.cured and not tolerance.cures_nan:
            return False
        return self.max_abs <= tolerance.max_abs or self.max_rel <= tolerance.max_rel


@dataclass(frozen=True)
class Proof:
    """The differences of all outputs, on inputs that were real or drawn.

    Attributes:
        differences: One an output.
        notes: What a reader must know to believe it.
    """

    differences: tuple[OutputDifference, ...]
    notes: tuple[str, ...] = ()

    @property
    def worst(self) -> OutputDifference | None:
        """The output that moved most, relative to its magnitude."""
        return max(self.differences, key=lambda d: (d.max_rel, d.max_abs), default=None)


def compare(output: str, before: Array, after: Array) -> OutputDifference:
    """Compare two values of one output.

    NaN equals NaN, an infinity equals itself; any other non-finite value on one side is an infinite difference,
    save a NaN before that is finite after, which is counted as cured. A number without dimensions before may be ``[1]``
    after.

    Raises:
        RewriteError: The shapes differ.
    """
    before = with_rank(before, after.ndim)
    if before.shape != after.shape:
        raise RewriteError(
            f"the shape changed from {list(before.shape)} to {list(after.shape)}", where=f"output {output}"
        )
    if before.dtype.kind not in "fc" or after.dtype.kind not in "fc":
        if before.dtype.kind in "biu" and after.dtype.kind in "biu":
            wrong = float(np.max(np.abs(before.astype(np.float64) - after.astype(np.float64)), initial=0.0))
            return OutputDifference(output, wrong, np.inf if wrong else 0.0)
        same = bool(np.array_equal(before, after))
        return OutputDifference(output, 0.0 if same else np.inf, 0.0 if same else np.inf)
    old, new = before.astype(np.float64), after.astype(np.float64)
    cured = np.isnan(old) & np.isfinite(new)
    same = (old == new) | (np.isnan(old) & np.isnan(new))
    both = np.isfinite(old) & np.isfinite(new)
    broken = ~(both | same | cured)
    with np.errstate(invalid="ignore"):
        distance = np.where(both, np.abs(old - new), 0.0)
    max_abs = float("inf") if broken.any() else float(np.max(distance, initial=0.0))
    magnitude = float(max(np.max(np.abs(one), initial=0.0, where=np.isfinite(one)) for one in (old, new)))
    max_rel = max_abs / magnitude if magnitude else max_abs
    return OutputDifference(output, max_abs, max_rel, int(cured.sum()))


def compare_runs(before: Sequence[Mapping[str, Array]], after: Sequence[Mapping[str, Array]]) -> Proof:
    """Compare the outputs of the same samples before and after, the worst of each output over the samples.

    Raises:
        RewriteError: An output is missing after, or changed its shape.
    """
    worst: dict[str, OutputDifference] = {}
    for old, new in zip(before, after, strict=True):
        for name, value in old.items():
            if name not in new:
                raise RewriteError("the output is gone", where=f"output {name}")
            found = compare(name, value, new[name])
            last = worst.get(name, found)
            worst[name] = OutputDifference(
                name,
                max(last.max_abs, found.max_abs),
                max(last.max_rel, found.max_rel),
                found.cured if last is found else last.cured + found.cured,
            )
    return Proof(tuple(worst.values()))


def require(proof: Proof, tolerance: Tolerance, pass_name: str) -> None:
    """Hold a proof against a tolerance.

    Raises:
        RewriteError: An output moved too far; it names the pass, the output and the difference.
    """
    for difference in proof.differences:
        if not difference.within(tolerance):
            nan = f", {difference.cured} NaN became finite" if difference.cured else ""
            raise RewriteError(
                f"the pass {pass_name} changes output {difference.output} by {difference.max_abs:.3g} "
                f"({difference.max_rel:.3g} of its magnitude{nan}), more than {tolerance.max_rel:g} of its magnitude",
                remedy="leave the pass out, or give inputs that are real",
            )


def samples_for(model: ir.Model, context: RewriteContext) -> tuple[list[Feed], tuple[str, ...]]:
    """The inputs to prove on, and the note that says so when they are drawn.

    Raises:
        RewriteError: None were given and none can be drawn.
    """
    if context.samples:
        return list(context.samples), ()
    feeds = draw_feeds(model, context.dims, seed=context.seed)
    return feeds, (f"proven on {len(feeds)} drawn inputs, none real were given",)


def run_all(model: ir.Model, feeds: Sequence[Feed], *, threads: int = 2, label: str = "the model") -> list[Outputs]:
    """Run a model on every sample.

    Raises:
        InputError: A sample lacks an input or has one too many.
        RewriteError: The model does not load or fails.
    """
    runner = Runner(model, threads=threads, label=label)
    return [runner.run(feed) for feed in feeds]


def run_before(
    model: ir.Model, context: RewriteContext, label: str
) -> tuple[list[Feed], list[Outputs], tuple[str, ...]]:
    """The inputs to prove on, what a model makes of them, and what a reader must know about them.

    Raises:
        InputError: A sample does not fit the model.
        RewriteError: The model does not run; where inputs were drawn, that may be their fault.
    """
    feeds, notes = samples_for(model, context)
    try:
        return feeds, run_all(model, feeds, threads=context.threads, label=label), notes
    except RewriteError as e:
        if context.samples:
            raise
        raise RewriteError(
            f"inputs were drawn from the declared shapes, and {e.what}", remedy="give real inputs as samples"
        ) from e


def prove(before: ir.Model, after: ir.Model, context: RewriteContext, *, tolerance: Tolerance, pass_name: str) -> Proof:
    """Run both models on the same inputs and hold the differences against the tolerance.

    Raises:
        RewriteError: A model does not run, or an output moved too far.
        InputError: A sample does not fit the model.
    """
    feeds, old, notes = run_before(before, context, f"the model before {pass_name}")
    new = run_all(after, feeds, threads=context.threads, label=f"the model after {pass_name}")
    proof = compare_runs(old, new)
    require(proof, tolerance, pass_name)
    return Proof(proof.differences, notes)
