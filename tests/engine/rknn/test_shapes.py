"""A compiled file for several shapes: the feed chooses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from chipwise.bundle import BundleWriter, EngineSpec, Manifest, ModelInfo, keep_graph_test, open_bundle
from chipwise.bundle.manifest import GRAPH, TEST_INPUTS, TEST_OUTPUTS, of_shape
from chipwise.engine import registry
from chipwise.engine.graph_session import GraphSession
from chipwise.engine.rknn import RknnEngine
from chipwise.errors import BundleError, EngineError
from tests.engine.conftest import MakeBoard
from tests.engine.rknn.rknn_files import rknn_bytes, write_rknn

SHAPES: list[dict[str, dict[str, list[int]]]] = [
    {"inputs": {"x": [1, 3, 4, 4]}, "outputs": {"y": [1, 2]}},
    {"inputs": {"x": [2, 3, 8, 4]}, "outputs": {"y": [2, 2]}},
]


def _open(board: MakeBoard, lite: ModuleType, folder: Path, shapes: Any) -> GraphSession:
    # The file describes the largest only.
    path = write_rknn(folder / "m.rknn", {"x": [2, 3, 8, 4]}, {"y": [2, 2]})
    lite.MODELS[path.read_bytes()] = lambda inputs, _: [np.full((len(inputs[0]), 2, 1, 1), inputs[0].sum(), "f")]
    return RknnEngine(board("rk3588")).open_graph(path, options={"shapes": shapes})


@pytest.mark.parametrize("shape", [(1, 3, 4, 4), (2, 3, 8, 4)])
def test_the_feed_chooses(shape: tuple[int, ...], lite: ModuleType, board: MakeBoard, tmp_path: Path) -> None:
    session = _open(board, lite, tmp_path, SHAPES)
    found = session.run({"x": np.ones(shape, np.float32)})["y"]
    assert found.shape == (shape[0], 2)
    assert found[0, 0] == np.prod(shape)


def test_another_shape_is_told_what_there_is(lite: ModuleType, board: MakeBoard, tmp_path: Path) -> None:
    session = _open(board, lite, tmp_path, SHAPES)
    with pytest.raises(EngineError) as caught:
        session.run({"x": np.ones((3, 3, 4, 4), np.float32)})
    assert "the inputs are x [3, 3, 4, 4], the model takes x [1, 3, 4, 4]; x [2, 3, 8, 4]" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong", [None, 2])
def test_a_bundle_tests_each_shape_on_the_board(
    wrong: int | None, lite: ModuleType, board: MakeBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = rknn_bytes({"x": [2, 3, 8, 4]}, {"y": [2, 2]})
    root = board("rk3588")
    monkeypatch.setitem(registry.engines._creators, "rknn", lambda: RknnEngine(root))
    # One batch is computed wrong.
    lite.MODELS[content] = lambda inputs, _: [np.full((len(inputs[0]), 2), 1.0 + (len(inputs[0]) == wrong), "f")]
    with BundleWriter(tmp_path / "b") as writer:
        writer.add_bytes(GRAPH, content, ".rknn")
        for number, rows in enumerate((1, 2)):
            feed = {"x": np.ones(SHAPES[number]["inputs"]["x"], np.float32)}
            test, *files = keep_graph_test(feed, {"y": np.ones((rows, 2), np.float32)}, tolerance=0.05)
            for role, data in zip((TEST_INPUTS, TEST_OUTPUTS), files, strict=True):
                writer.add_bytes(of_shape(role, number), data, ".npz")
        options = {"toolkit_version": "2.5.0", "shapes": SHAPES}
        manifest = Manifest("m", "rk3588", EngineSpec("rknn", options), ModelInfo({}, "onnx", "m"),
                            graph_test=replace(test, shapes=2))  # fmt: skip
        bundle = open_bundle(writer.commit(manifest))
    if wrong is None:
        bundle.open_graph().close()
    else:
        with pytest.raises(BundleError, match="the output y differs by 1 of 1"):
            bundle.open_graph()


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ([], "is no list of shapes"),
        ("x", "is no list of shapes"),
        ([{"inputs": {"x": [1]}}], "is no list of shapes"),
        ([{"inputs": {"x": [0]}, "outputs": {"y": [1]}}], "is no list of shapes"),
        ([{"inputs": {"x": [True]}, "outputs": {"y": [1]}}], "is no list of shapes"),
        ([{"inputs": {"z": [1]}, "outputs": {"y": [1]}}], "does not name x"),
    ],
)
def test_a_malformed_list(shapes: Any, words: str, lite: ModuleType, board: MakeBoard, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=words):
        _open(board, lite, tmp_path, shapes)
