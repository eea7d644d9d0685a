from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.rewrite.passes.unused_outputs import UnusedOutputs
from tests.check.graphs import graph, with_initializers
from tests.rewrite.helpers import ops, rewritten, unchanged

RNG = np.random.default_rng(0)
PASS = UnusedOutputs()
GATES = {"GRU": 3, "RNN": 1, "LSTM": 4}


def _cell(op: str, outputs: list[str], direction: str = "forward", **attributes: int) -> ir.Model:
    """A cell over 5 steps of 6 numbers with a state of 8; ``-`` is one that nobody reads."""
    ways, gates = (2 if direction == "bidirectional" else 1), GATES[op]
    shapes = {"y": f"[5,{ways},1,8]", "h": f"[{ways},1,8]", "c": f"[{ways},1,8]"}
    wanted = ", ".join(f"float{shapes[name[0]]} {name}" for name in outputs if name[0] in shapes)
    weights = {"w": (ways, gates * 8, 6), "r": (ways, gates * 8, 8), "b": (ways, 2 * gates * 8)}
    declared = ", ".join(f"float[{','.join(map(str, shape))}] {name}" for name, shape in weights.items())
    model = graph(
        f"g (float[5,1,6] x, {declared}) => ({wanted})"
        f" {{ {', '.join(name if name[0] in shapes else f'gone_{i}' for i, name in enumerate(outputs))}"
        f' = {op}<hidden_size=8, direction="{direction}">(x, w, r, b) }}'
    )
    values = {name: RNG.standard_normal(shape).astype(np.float32) / 4 for name, shape in weights.items()}
    with_initializers(model, **values)
    return model


@pytest.mark.parametrize("op", ["GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_last_state_without_its_steps_is_read_from_them(op: str, direction: str) -> None:
    result = rewritten(_cell(op, ["-", "h"], direction), PASS)
    assert "1 last states are read from the steps" in result.steps[0].notes
    assert not result.model.graph[0].outputs[1].uses()
    assert result.model.graph.outputs[0].name == "h"


@pytest.mark.parametrize("outputs", [["y", "-", "c"], ["-", "-", "c"]])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_a_last_cell_without_the_last_state_is_cut_out_of_both(outputs: list[str], direction: str) -> None:
    result = rewritten(_cell("LSTM", outputs, direction), PASS)
    assert ops(result.model) == ["LSTM", "Concat", "Slice"]
    assert result.model.graph[0].outputs[1].uses()


@pytest.mark.parametrize(("op", "outputs"), [("LSTM", ["y", "h", "c"]), ("GRU", ["y", "h"]), ("LSTM", ["y"])])
def test_what_builds_stays(op: str, outputs: list[str]) -> None:
    unchanged(_cell(op, outputs), PASS)
