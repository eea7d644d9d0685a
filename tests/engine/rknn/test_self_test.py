"""A bundle for a Rockchip chip: what opening it says on the board."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from chipwise.bundle import BundleWriter, EngineSpec, Manifest, ModelInfo, keep_graph_test, open_bundle
from chipwise.bundle.manifest import GRAPH, TEST_INPUTS, TEST_OUTPUTS
from chipwise.engine import registry
from chipwise.engine.rknn import RknnEngine
from chipwise.errors import BundleError, EngineError
from chipwise.model.rknn_file import read_rknn_file
from tests.engine.conftest import MakeBoard
from tests.engine.rknn.computing import by_projection
from tests.engine.rknn.test_graph import CONV, IMAGE

COMPUTE = by_projection(read_rknn_file(CONV).inputs, 10)


def write_graph_bundle(folder: Path) -> Path:
    """A plain graph for rk3566 with what a simulator computed."""
    outputs = {"scores": COMPUTE([IMAGE], [0])[0]}
    test, inputs, expected = keep_graph_test({"image": IMAGE}, outputs, tolerance=0.05)
    with BundleWriter(folder) as writer:
        writer.add_bytes(GRAPH, CONV.read_bytes(), ".rknn")  # add_file would move it
        writer.add_bytes(TEST_INPUTS, inputs, ".npz")
        writer.add_bytes(TEST_OUTPUTS, expected, ".npz")
        manifest = Manifest(
            name="conv",
            target="rk3566",
            engine=EngineSpec("rknn", {"toolkit_version": "2.5.0"}),
            model=ModelInfo({}, "onnx", "conv"),
            graph_test=test,
        )
        return writer.commit(manifest)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write_graph_bundle(tmp_path / "b")


@pytest.fixture
def on_board(lite: ModuleType, board: MakeBoard, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The registry's engine runs on a board."""
    root = board("rk3566")
    lite.MODELS[CONV.read_bytes()] = COMPUTE
    monkeypatch.setitem(registry.engines._creators, "rknn", lambda: RknnEngine(root))
    return lite


def test_a_right_board_passes(bundle: Path, on_board: ModuleType) -> None:
    session = open_bundle(bundle).open_graph()
    assert session.run({"image": IMAGE})["scores"].shape == (1, 10)
    session.close()


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("zeros", "the output scores is all zeros: a kernel of the runtime does nothing for this model; the runtime"),
        ("nan", "10 of 10 values of scores are NaN or infinite; the runtime does not compute here what"),
    ],
)
def test_a_wrong_board_fails(bundle: Path, on_board: ModuleType, fault: str, text: str) -> None:
    on_board.FAULT["name"] = fault
    with pytest.raises(BundleError) as caught:
        open_bundle(bundle).open_graph()
    assert f"the self-test failed: {text}" in str(caught.value)
    assert on_board.MADE[-1].released == 1


def test_known_faults_are_named_where_the_model_has_the_operator(
    bundle: Path, on_board: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from chipwise.engine.rknn import engine
    from chipwise.model.rknn_file import RknnOperator

    file = replace(read_rknn_file(CONV), operators=(RknnOperator("exNorm", "n", "npu"),), toolkit_version="2.3.2")
    monkeypatch.setattr(engine, "read_rknn_file", lambda path: file)
    on_board.FAULT["name"] = "nan"
    with pytest.raises(
        BundleError, match=r"\(known: a norm's squares .* here: rk3566, librknnrt 2\.5\.0\); the runtime"
    ):
        open_bundle(bundle).open_graph()
    on_board.RKNNLite._inference = lambda *_: [np.ones((1, 10), np.float32)]
    on_board.FAULT["name"] = None
    with pytest.raises(BundleError, match=r"differs by .* \(toolkit 2\.3\.2 compiled it, another version"):
        open_bundle(bundle).open_graph()


def test_settings_of_the_board_go_before_the_bundles(bundle: Path, on_board: ModuleType) -> None:
    opened = open_bundle(bundle)
    session = opened.open_graph(options={"contexts": 2, "core_mask": "all"})
    assert len(on_board.MADE) == 2
    session.close()
    with pytest.raises(EngineError, match="no option 'threads'"):
        opened.open_graph(threads=2)
