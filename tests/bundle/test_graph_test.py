from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from chipwise.bundle import BundleWriter, EngineSpec, Manifest, ModelInfo, open_bundle, record_graph_test
from chipwise.bundle import bundle as bundle_module
from chipwise.bundle.graph_test import run_graph_test
from chipwise.bundle.manifest import GRAPH, TEST_INPUTS, TEST_OUTPUTS, of_shape
from chipwise.errors import BundleError, EngineError
from tests.bundle.fakes import FakeEngine

Array = npt.NDArray[Any]
FEED = {"x/0": np.arange(6, dtype=np.float32).reshape(2, 3), "mask": np.ones((2, 3), np.int64)}


class FakeGraphSession:
    input_names = ("x/0", "mask")
    output_names = ("y", "flags")

    def __init__(self, spoil: Callable[[Array], Array] = lambda y: y) -> None:
        self.closed = False
        self._spoil = spoil

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        y = self._spoil(feed["x/0"] * 2 + feed["mask"])
        return {"y": y, "flags": y > 3}

    def close(self) -> None:
        self.closed = True


class FakeGraphEngine(FakeEngine):
    def __init__(self, spoil: Callable[[Array], Array] = lambda y: y) -> None:
        super().__init__()
        self.spoil_graph, self.opened = spoil, list[FakeGraphSession]()

    def open_graph(self, path: Path, *, options: Mapping[str, Any]) -> FakeGraphSession:
        assert path.read_bytes() == b"graph"
        self.options = dict(options)
        self.opened.append(FakeGraphSession(self.spoil_graph))
        return self.opened[-1]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    test, inputs, outputs = record_graph_test(FakeGraphSession(), FEED, tolerance=0.01)
    with BundleWriter(tmp_path / "b") as writer:
        writer.add_bytes(GRAPH, b"graph", ".onnx")
        writer.add_bytes(TEST_INPUTS, inputs, ".npz")
        writer.add_bytes(TEST_OUTPUTS, outputs, ".npz")
        info = ModelInfo({"arch": "graph"}, "onnx", "tiny")
        return writer.commit(Manifest("tiny", "host", EngineSpec("fake", {"threads": 3}), info, graph_test=test))


def _use(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_module, "get_engine", lambda name: engine)


def test_a_graph_that_computes_what_it_did_opens(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeGraphEngine()
    _use(engine, monkeypatch)
    session = open_bundle(bundle).open_graph(threads=1)
    assert session.run(FEED)["y"].sum() == 36
    assert engine.options == {"threads": 1}
    assert not engine.opened[0].closed


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (np.zeros_like, "the output y is all zeros: a kernel of the runtime does nothing"),
        (lambda y: np.where(y == 3, np.nan, y), "1 of 6 values of y are NaN or infinite"),
        (lambda y: y * np.inf, "are NaN or infinite"),
        (lambda y: y * 1.02, "differs by 0.22 of 11"),
        (lambda y: y[:1], "is [1, 3] instead of [2, 3]"),
        (lambda y: -y, "differs by 22"),
    ],
)
def test_a_graph_that_computes_something_else_is_closed_and_refused(
    spoil: Callable[[Array], Array], says: str, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FakeGraphEngine(spoil)
    _use(engine, monkeypatch)
    with pytest.raises(BundleError, match="self-test failed") as caught:
        open_bundle(bundle).open_graph()
    assert says in str(caught.value)
    assert engine.opened[0].closed


def test_a_rounding_within_the_tolerance_passes(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _use(FakeGraphEngine(lambda y: y + 0.1), monkeypatch)
    open_bundle(bundle).open_graph()


def test_indices_count_where_there_are_no_numbers(tmp_path: Path) -> None:
    class Picks(FakeGraphSession):
        output_names = ("best",)

        def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
            return {"best": self._spoil(np.array([4, 2]))}

    test, inputs, outputs = record_graph_test(Picks(), FEED, tolerance=0.01)
    paths = tmp_path / "in.npz", tmp_path / "out.npz"
    paths[0].write_bytes(inputs)
    paths[1].write_bytes(outputs)
    run_graph_test(Picks(), test, *paths, where="b")
    with pytest.raises(BundleError, match="differs by 2 of 4"):
        run_graph_test(Picks(lambda y: y[::-1]), test, *paths, where="b")


def test_each_shape_is_tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a graph compiled for several, one may be wrong on a board."""
    other = {"x/0": np.ones((1, 3), np.float32), "mask": np.ones((1, 3), np.int64)}
    with BundleWriter(tmp_path / "b") as writer:
        writer.add_bytes(GRAPH, b"graph", ".onnx")
        for shape, feed in enumerate((FEED, other)):
            test, inputs, outputs = record_graph_test(FakeGraphSession(), feed, tolerance=0.01)
            writer.add_bytes(of_shape(TEST_INPUTS, shape), inputs, ".npz")
            writer.add_bytes(of_shape(TEST_OUTPUTS, shape), outputs, ".npz")
        info = ModelInfo({"arch": "graph"}, "onnx", "tiny")
        manifest = Manifest("tiny", "host", EngineSpec("fake"), info, graph_test=replace(test, shapes=2))
        path = writer.commit(manifest)
    opened = open_bundle(path)
    assert (opened.manifest.format_version, opened.manifest.graph_test) == (4, replace(test, shapes=2))
    assert set(opened.manifest.engine_files) == {GRAPH}
    _use(FakeGraphEngine(), monkeypatch)
    opened.open_graph()
    _use(FakeGraphEngine(lambda y: y if len(y) == 2 else y * 2), monkeypatch)
    with pytest.raises(BundleError, match="the output y differs by 3 of 3"):
        opened.open_graph()


def test_a_bundle_of_one_shape_stays_as_older_versions_read_it(bundle: Path) -> None:
    fields = json.loads((bundle / "manifest.json").read_bytes())
    assert (fields["format_version"], fields["graph_test"]) == (1, {"tolerance": 0.01})


def test_a_shape_without_its_files(tmp_path: Path) -> None:
    test, inputs, outputs = record_graph_test(FakeGraphSession(), FEED, tolerance=0.01)
    with BundleWriter(tmp_path / "b") as writer:
        writer.add_bytes(GRAPH, b"graph", ".onnx")
        writer.add_bytes(TEST_INPUTS, inputs, ".npz")
        writer.add_bytes(TEST_OUTPUTS, outputs, ".npz")
        info = ModelInfo({"arch": "graph"}, "onnx", "tiny")
        manifest = Manifest("tiny", "host", EngineSpec("fake"), info, graph_test=replace(test, shapes=2))
        with pytest.raises(BundleError, match=r"no file has the role 'self_test_inputs\.1'"):
            writer.commit(manifest)


def test_a_small_dead_channel_is_told_by_output_and_channel(tmp_path: Path) -> None:
    image = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    image[:, 1] *= 0.015

    class Image(FakeGraphSession):
        def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
            return {"features": self._spoil(image.copy())}

    def lose(y: Array) -> Array:
        y[:, 1] = 0
        return y

    test, inputs, outputs = record_graph_test(Image(), FEED, tolerance=0.05)
    paths = tmp_path / "in.npz", tmp_path / "out.npz"
    paths[0].write_bytes(inputs)
    paths[1].write_bytes(outputs)
    run_graph_test(Image(), test, *paths, where="b")
    assert np.abs(image - lose(image.copy())).max() < test.tolerance * np.abs(image).max(), "the whole output passes"
    with pytest.raises(BundleError, match=r"channel 1 of the output features is all zeros, up to 0\.0\d+ was expected"):
        run_graph_test(Image(lose), test, *paths, where="b")


def test_the_self_test_can_be_left_out(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _use(FakeGraphEngine(np.zeros_like), monkeypatch)
    open_bundle(bundle).open_graph(self_test=False)


def test_an_engine_without_plain_graphs(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _use(FakeEngine(), monkeypatch)
    with pytest.raises(EngineError, match="runs no plain graphs"):
        open_bundle(bundle).open_graph()


def test_a_decoder_is_no_plain_graph(tmp_path: Path) -> None:
    from tests.bundle.fakes import write_bundle

    with pytest.raises(BundleError, match="holds no plain graph"):
        open_bundle(write_bundle(tmp_path / "b")).open_graph()


def test_test_files_that_are_missing(tmp_path: Path) -> None:
    test, inputs, _ = record_graph_test(FakeGraphSession(), FEED, tolerance=0.01)
    with BundleWriter(tmp_path / "b") as writer:
        writer.add_bytes(GRAPH, b"graph", ".onnx")
        writer.add_bytes(TEST_INPUTS, inputs, ".npz")
        info = ModelInfo({"arch": "graph"}, "onnx", "tiny")
        manifest = Manifest("tiny", "host", EngineSpec("fake"), info, graph_test=test)
        with pytest.raises(BundleError, match="no file has the role 'self_test_outputs'"):
            writer.commit(manifest)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 torn", b"\x93NUMPY", b"not arrays at all"])
def test_a_test_file_that_holds_no_arrays(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "in.npz").write_bytes(content)
    test, _, outputs = record_graph_test(FakeGraphSession(), FEED, tolerance=0.01)
    (tmp_path / "out.npz").write_bytes(outputs)
    with pytest.raises(BundleError, match="no arrays"):
        run_graph_test(FakeGraphSession(), test, tmp_path / "in.npz", tmp_path / "out.npz", where="b")


def test_outputs_of_no_use_are_not_recorded() -> None:
    with pytest.raises(BundleError, match="every output is all zeros"):
        record_graph_test(FakeGraphSession(np.zeros_like), FEED, tolerance=0.01)
    with pytest.raises(BundleError, match="y holds NaN"):
        record_graph_test(FakeGraphSession(lambda y: y * np.nan), FEED, tolerance=0.01)
