from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.errors import EngineError
from chipwise.model.model import Model
from chipwise.quant.calibration import calibrate
from chipwise.quant.hessian import HessianSource, linear_inputs
from chipwise.rewrite.decoder_feeds import prompt_feed
from chipwise.rewrite.runner import Runner
from tests.model.decoder.random_models import write_folder
from tests.model.decoder.sessions import fused_file

PROMPTS = [[5, 9, 4, 7], [33, 12, 8, 8, 40, 2, 19]]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fused")
    return fused_file(write_folder("llama", folder), folder)


def test_the_sum_of_outer_products_of_a_weights_inputs(path: Path) -> None:
    source = HessianSource(path, PROMPTS, threads=1)
    model = ir.load(path)
    for one in linear_inputs(model):
        tapped = ir.load(path)
        values = {value.name: value for node in tapped.graph for value in node.outputs}
        tapped.graph.outputs[:] = [values[one.value]]
        values[one.value].dtype = ir.DataType.FLOAT
        runner = Runner(tapped, threads=1)
        wanted = np.zeros((one.width, one.width))
        for prompt in PROMPTS:
            x = runner.run(prompt_feed(model.graph, prompt))[one.value].reshape(-1, one.width)
            wanted += x.T @ x
        for weight in one.weights:
            found = source(weight)
            assert found is not None
            assert np.allclose(found, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())


def test_little_memory_gives_the_same(path: Path) -> None:
    at_once, in_turn = HessianSource(path, PROMPTS, threads=1), HessianSource(path, PROMPTS, threads=1, max_bytes=1)
    for one in linear_inputs(ir.load(path)):
        for weight in one.weights:
            first, second = at_once(weight), in_turn(weight)
            assert first is not None
            assert second is not None
            assert np.array_equal(first, second)
    assert len(in_turn._held) == 1


def test_a_weight_the_graph_has_not(path: Path) -> None:
    assert HessianSource(path, PROMPTS, threads=1)("nowhere.weight") is None


def test_no_prompts(path: Path) -> None:
    with pytest.raises(EngineError, match="no calibration prompts"):
        HessianSource(path, [])


def test_progress_counts_prompts(path: Path) -> None:
    told: list[tuple[int, int]] = []
    source = HessianSource(path, PROMPTS, threads=1, progress=lambda *of: told.append(of))
    source(linear_inputs(ir.load(path))[0].weights[0])
    assert told == [(1, 2), (2, 2)]


def test_nothing_is_left_beside_the_graph(path: Path) -> None:
    before = sorted(path.parent.iterdir())
    HessianSource(path, PROMPTS, threads=1)(linear_inputs(ir.load(path))[0].weights[0])
    assert sorted(path.parent.iterdir()) == before


def test_every_product_with_a_weight_is_an_input(path: Path, llama: Model) -> None:
    model = ir.load(path)
    found = linear_inputs(model)
    products = [node for node in model.graph if node.op_type in ("MatMul", "Gemm")]
    assert sum(len(one.weights) for one in found) == len(products)
    widths = calibrate(model, [prompt_feed(model.graph, PROMPTS[0])], [one.value for one in found])
    assert len(widths) == len(found)
