from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.errors import InputError, RewriteError
from chipwise.rewrite.edit import Patch
from chipwise.rewrite.pass_ import ROUNDED, PassResult, RewriteContext, Tolerance
from chipwise.rewrite.pipeline import RewriteStep, run_passes
from tests.check.graphs import graph
from tests.rewrite.helpers import ops, rewritten

BODY = "g (float[4] x) => (float[4] y) { y = Relu(x) }"


@dataclass(frozen=True)
class Append:
    """Put ``y * factor`` in the output's place."""

    factor: float = 1.0
    name: str = "append"
    requires: tuple[str, ...] = ()
    optional: bool = False
    tolerance: Tolerance = ROUNDED

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        last = list(model.graph)[-1]
        patch = Patch.behind(last)
        patch.replace(
            last.outputs[0], patch.op("Mul", [last.outputs[0], patch.constant(self.factor, ir.DataType.FLOAT)])
        )
        # The new node reads the old value, which replace() took from it as well.
        list(model.graph)[-1].replace_input_with(0, last.outputs[0])
        return PassResult(model, True, (f"times {self.factor:g}",))


@dataclass(frozen=True)
class Broken(Append):
    """A pass with an accident."""

    name: str = "broken"

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        model.graph.inputs[0].name = "renamed"
        raise KeyError("oops")


@dataclass(frozen=True)
class Renaming(Append):
    """A pass that breaks the contract."""

    name: str = "renaming"

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        model.graph.outputs[0].name = "z"
        return PassResult(model, True)


@dataclass(frozen=True)
class Idle(Append):
    """A pass without anything to do."""

    name: str = "idle"

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        return PassResult(model, False, ("looked",))


def test_passes_run_in_order_and_the_model_given_stays() -> None:
    model = graph(BODY)
    result = run_passes(model, [Append(), Idle(), Append()], RewriteContext())
    assert ops(result.model) == ["Relu", "Mul", "Mul"]
    assert ops(model) == ["Relu"]
    assert [step.modified for step in result.steps] == [True, False, True]
    assert result.steps[1].line() == "idle: nothing to do; looked"
    assert [value.name for value in result.model.graph.outputs] == ["y"]


def test_differences_are_of_the_step_and_the_total_is_of_all() -> None:
    result = rewritten(BODY, Append(1.000004), Append(1.000004))
    first, second = result.steps
    assert 0 < first.max_rel_diff < 5e-6
    assert 0 < second.max_rel_diff < 5e-6
    assert result.total is not None
    assert result.total.worst is not None
    assert result.total.worst.max_rel > first.max_rel_diff


def test_a_pass_that_must_not_fail_stops_the_run() -> None:
    with pytest.raises(RewriteError, match="the pass append changes output y"):
        rewritten(BODY, Append(2.0))


def test_an_optional_pass_is_dropped_and_the_next_goes_on() -> None:
    result = rewritten(BODY, Append(2.0, optional=True), Append())
    assert [(step.dropped, step.modified) for step in result.steps] == [(True, False), (False, True)]
    assert "changes output y" in result.steps[0].notes[0]
    assert result.steps[0].line().startswith("append: dropped; ")
    assert ops(result.model) == ["Relu", "Mul"]


def test_an_accident_inside_a_pass_becomes_one_error() -> None:
    with pytest.raises(RewriteError, match=r"the pass broken failed \(KeyError: 'oops'\)"):
        rewritten(BODY, Broken())
    result = rewritten(BODY, Broken(optional=True))
    assert result.steps[0].dropped
    assert [value.name for value in result.model.graph.inputs] == ["x"]


def test_a_pass_may_not_rename_outputs() -> None:
    with pytest.raises(RewriteError, match="renamed the graph's inputs or outputs"):
        rewritten(BODY, Renaming())


def test_order_is_held() -> None:
    late = Append(name="late", requires=("early",))
    early = Append(name="early")
    with pytest.raises(RewriteError, match="the pass late must come after early"):
        rewritten(BODY, late, early)
    assert len(rewritten(BODY, early, late).steps) == 2
    assert len(rewritten(BODY, late).steps) == 1
    assert len(rewritten(BODY, early, late, early).steps) == 3


def test_real_samples_are_used_and_must_fit() -> None:
    result = rewritten(BODY, Append(), samples=({"x": np.ones(4, np.float32)},))
    assert result.steps[0].notes == ("times 1",)
    with pytest.raises(InputError, match="lacks x"):
        rewritten(BODY, Append(), samples=({},))


def test_a_step_as_data() -> None:
    step = RewriteStep("p", True, ("n",), 0.5, 0.25)
    assert step.to_dict() == {
        "name": "p",
        "modified": True,
        "dropped": False,
        "max_abs_diff": 0.5,
        "max_rel_diff": 0.25,
        "notes": ["n"],
    }
    assert step.line() == "p: largest difference 0.5 (0.25 of the output); n"


def test_no_pass_no_run() -> None:
    result = run_passes(
        graph("g (float[2] x) => (float[2] y) { y = foo.Bar(x) }", imports=', "foo": 1'), [], RewriteContext()
    )
    assert result.total is None
