"""Pipeline: passes in order, each proven before the next one starts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import onnx_ir as ir

from chipwise.check.infer import infer_types
from chipwise.errors import ChipwiseError, RewriteError
from chipwise.rewrite.pass_ import Pass, PassResult, RewriteContext
from chipwise.rewrite.prove import Outputs, Proof, compare_runs, require, run_all, run_before

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class RewriteStep:
    """What one pass came to.

    Attributes:
        name: The pass.
        modified: Whether the model that goes on is changed by it.
        notes: What it changed or left, and why it was dropped, if it was.
        max_abs_diff: Largest difference of any output, in the output's unit; 0 if nothing changed.
        max_rel_diff: Largest difference over the magnitude of its output; 0 if nothing changed.
        dropped: Whether it was optional, failed, and was left out.
    """

    name: str
    modified: bool
    notes: tuple[str, ...] = ()
    max_abs_diff: float = 0.0
    max_rel_diff: float = 0.0
    dropped: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, for a report."""
        return {
            "name": self.name,
            "modified": self.modified,
            "dropped": self.dropped,
            "max_abs_diff": self.max_abs_diff,
            "max_rel_diff": self.max_rel_diff,
            "notes": list(self.notes),
        }

    def line(self) -> str:
        """One line of text for a terminal."""
        if self.dropped:
            state = "dropped"
        elif self.modified:
            state = f"largest difference {self.max_abs_diff:.2g} ({self.max_rel_diff:.2g} of the output)"
        else:
            state = "nothing to do"
        return f"{self.name}: {state}" + "".join(f"; {note}" for note in self.notes)


@dataclass(frozen=True)
class RewriteResult:
    """The rewritten model and what every pass came to.

    Attributes:
        model: The model after the last pass.
        steps: One a pass, in order.
        total: The differences between the first model and the last; None if nothing was modified.
    """

    model: ir.Model
    steps: tuple[RewriteStep, ...]
    total: Proof | None = None


def run_passes(model: ir.Model, passes: Sequence[Pass], context: RewriteContext) -> RewriteResult:
    """Run passes in order on a copy of the model and prove each that changed something.

    The outputs before a pass are those after the last one, so a model runs once a modifying pass and once at the
    start. The model given is not changed.

    Raises:
        RewriteError: A pass that is not optional fails or moves an output too far; passes are in the wrong order.
        InputError: A sample or an option of a pass does not fit the model.
    """
    _require_order(passes)
    bench = _Bench(model, context)
    steps = []
    for one in passes:
        step = _run_one(one, bench)
        _LOG.info("%s", step.line())
        steps.append(step)
    return RewriteResult(bench.model, tuple(steps), bench.total())


class _Bench:
    """The model as it stands, and its outputs on the samples, computed when first needed."""

    def __init__(self, model: ir.Model, context: RewriteContext) -> None:
        self.model = model.clone()
        infer_types(self.model)
        self.context = context
        self.notes: tuple[str, ...] = ()
        self._first: list[Outputs] | None = None
        self._outputs: list[Outputs] | None = None

    def prove(self, one: Pass, candidate: ir.Model) -> Proof:
        """Prove a candidate against the model as it stands, and let it take the model's place."""
        if self._outputs is None:
            label = f"the model before {one.name}"
            feeds, self._outputs, self.notes = run_before(self.model, self.context, label)
            self.context = replace(self.context, samples=tuple(feeds))
            self._first = self._outputs
        after = run_all(
            candidate, self.context.samples, threads=self.context.threads, label=f"the model after {one.name}"
        )
        proof = compare_runs(self._outputs, after)
        require(proof, one.tolerance, one.name)
        self.model, self._outputs = candidate, after
        return proof

    def total(self) -> Proof | None:
        """First against last."""
        if self._first is None or self._outputs is None or self._first is self._outputs:
            return None
        return Proof(compare_runs(self._first, self._outputs).differences, self.notes)


def _run_one(one: Pass, bench: _Bench) -> RewriteStep:
    try:
        result = _apply(one, bench)
        if not result.modified:
            return RewriteStep(one.name, modified=False, notes=result.notes)
        proof = bench.prove(one, result.model)
    except ChipwiseError as e:
        if not one.optional:
            raise
        return RewriteStep(one.name, modified=False, notes=(str(e),), dropped=True)
    return RewriteStep(
        one.name,
        modified=True,
        notes=(*result.notes, *bench.notes),
        max_abs_diff=max((d.max_abs for d in proof.differences), default=0.0),
        max_rel_diff=max((d.max_rel for d in proof.differences), default=0.0),
    )


def _apply(one: Pass, bench: _Bench) -> PassResult:
    """Apply a pass to a copy; what a library inside it raises becomes a RewriteError."""
    try:
        result = one.apply(bench.model.clone(), bench.context)
    except ChipwiseError:
        raise
    except Exception as e:  # rewriting libraries raise what they like; one pass must not take the build down
        raise RewriteError(
            f"the pass {one.name} failed ({type(e).__name__}: {e})", remedy="leave the pass out, or report the model"
        ) from e
    if not result.modified:
        return result
    before = [value.name for value in (*bench.model.graph.inputs, *bench.model.graph.outputs)]
    after = [value.name for value in (*result.model.graph.inputs, *result.model.graph.outputs)]
    if before != after:
        raise RewriteError(f"the pass {one.name} renamed the graph's inputs or outputs from {before} to {after}")
    return result


def _require_order(passes: Sequence[Pass]) -> None:
    names = [one.name for one in passes]
    for index, one in enumerate(passes):
        late = [name for name in one.requires if name in names[index:] and name not in names[:index]]
        if late:
            raise RewriteError(f"the pass {one.name} must come after {', '.join(late)}", remedy="reorder the passes")
