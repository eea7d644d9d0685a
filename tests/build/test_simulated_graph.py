from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.build.graph_files import GraphFiles
from chipwise.build.simulated_graph import SimulatedDecoderGraph
from chipwise.engine import Batch, Session
from chipwise.engine.mask import Mask
from chipwise.engine.onnxruntime.decoder_graph import DecoderGraph
from chipwise.engine.portable import PortableSession
from chipwise.errors import EngineError
from chipwise.model.decoder.spec import DEFAULT_MASK_VALUE
from chipwise.model.model import Model
from chipwise.model.onnx_file_writer import save_graphs
from tests.build.live import FakeLiveJob
from tests.build.test_portable_graphs import PROMPTS, SHAPE, _graphs


@pytest.fixture(scope="module")
def files(even: Model, tmp_path_factory: pytest.TempPathFactory) -> GraphFiles:
    return _graphs(even, tmp_path_factory.mktemp("simulated")).reference()


@pytest.fixture(scope="module")
def windowed(gemma: Model, tmp_path_factory: pytest.TempPathFactory) -> GraphFiles:
    return _graphs(gemma, tmp_path_factory.mktemp("windowed")).reference()


def _simulated(files: GraphFiles) -> Session:
    prefill, decode = (
        SimulatedDecoderGraph(FakeLiveJob(files.files[role]), files.files[role])  # type: ignore[arg-type]
        for role in ("prefill", "decode")
    )
    return PortableSession(prefill, decode, n_slots=2, max_context=SHAPE.context, mask=Mask(None, None))


@pytest.mark.parametrize("which", ["files", pytest.param("windowed", marks=pytest.mark.slow)])
def test_a_session_over_a_simulator_is_one_over_its_source(which: str, request: pytest.FixtureRequest) -> None:
    graphs: GraphFiles = request.getfixturevalue(which)
    theirs, ours = graphs.open(n_slots=2, max_context=SHAPE.context, threads=1), _simulated(graphs)
    long = [*PROMPTS[4], *PROMPTS[3]]
    assert len(long) > SHAPE.tokens
    for batch in (
        Batch(0, np.array([PROMPTS[0]]), np.array([0]), "all"),
        Batch(1, np.array([long[: SHAPE.tokens]]), np.array([0])),
        Batch(1, np.array([[7]]), np.array([SHAPE.tokens])),
        Batch(0, np.array([[7], [9]]), np.array([len(PROMPTS[0]), SHAPE.tokens + 1])),
    ):
        assert np.allclose(ours.step(batch).logits, theirs.step(batch).logits, atol=1e-5)
    ours.close()
    theirs.close()


def test_its_borders_are_those_that_onnx_runtime_sees(files: GraphFiles) -> None:
    for path in files.files.values():
        ours = SimulatedDecoderGraph(FakeLiveJob(path), path).info  # type: ignore[arg-type]
        theirs = DecoderGraph(path, threads=1).info
        assert dict(ours.inputs) == dict(theirs.inputs)
        assert dict(ours.outputs) == dict(theirs.outputs)
        assert list(ours.inputs) == list(theirs.inputs)
        assert dict(ours.metadata).items() >= dict(theirs.metadata).items()
        assert (ours.path, ours.vocab_size) == (path, theirs.vocab_size)


def test_arrays_go_over_in_the_graphs_order_and_types(files: GraphFiles) -> None:
    path = files.files["prefill"]
    job = FakeLiveJob(path)
    graph = SimulatedDecoderGraph(job, path)  # type: ignore[arg-type]
    feeds = {
        name: np.zeros([int(dim) for dim in shape if dim is not None], np.int32)
        for name, shape in reversed(graph.info.inputs.items())
    }
    graph.run(feeds)
    theirs = DecoderGraph(path, threads=1).session.get_inputs()
    types = {"tensor(int64)": np.int64, "tensor(float)": np.float32}
    assert [one.dtype for one in job.calls[0]] == [types[one.type] for one in theirs]
    assert [list(one.shape) for one in job.calls[0]] == [one.shape for one in theirs]


def test_a_simulator_that_returns_too_little(files: GraphFiles) -> None:
    path = files.files["prefill"]
    graph = SimulatedDecoderGraph(FakeLiveJob(path, outputs=2), path)  # type: ignore[arg-type]
    feeds = {
        name: np.zeros([int(dim) for dim in shape if dim is not None]) for name, shape in graph.info.inputs.items()
    }
    with pytest.raises(EngineError, match=r"the simulator returned 2 outputs, the graph has 5") as raised:
        graph.run(feeds)
    assert str(path) in str(raised.value)


def test_a_simulator_that_is_gone_is_an_error_of_the_engine(files: GraphFiles) -> None:
    path = files.files["decode"]
    graph = SimulatedDecoderGraph(FakeLiveJob(path, fails="the job ended while it was asked"), path)  # type: ignore[arg-type]
    feeds = {
        name: np.zeros([int(dim) for dim in shape if dim is not None]) for name, shape in graph.info.inputs.items()
    }
    with pytest.raises(EngineError, match=r"the simulator failed \(the job ended while it was asked\)"):
        graph.run(feeds)


def test_closing_leaves_the_process_to_the_other_sessions(files: GraphFiles) -> None:
    first, jobs = _simulated(files), [FakeLiveJob(files.files[role]) for role in ("prefill", "decode")]
    graphs = [SimulatedDecoderGraph(job, files.files[role]) for job, role in zip(jobs, files.files, strict=True)]  # type: ignore[arg-type]
    del first
    one = PortableSession(*graphs, n_slots=1, max_context=SHAPE.context, mask=Mask(None, None))
    one.close()
    two = PortableSession(*graphs, n_slots=1, max_context=SHAPE.context, mask=Mask(None, None))
    assert np.isfinite(two.step(Batch(0, np.array([[5, 6]]), np.array([0]))).logits).all()


def test_a_graph_that_gives_all_rows_answers_like_one_that_is_told_which(even: Model, tmp_path: Path) -> None:
    (tmp_path / "told").mkdir()
    graphs = _graphs(even, tmp_path / "told")
    told = graphs.reference()
    pair = graphs.pair(DEFAULT_MASK_VALUE, all_rows=True)
    assert all("output_rows" not in {value.name for value in graph.graph.inputs} for graph in pair.values())
    # The forms that Rockchip's toolkit hands out on the NPU.
    assert [pair[role].graph.outputs[0].shape for role in ("prefill", "decode")] == [
        ir.Shape([1, SHAPE.tokens, 1, even.config.vocab_size]), ir.Shape([1, even.config.vocab_size])
    ]  # fmt: skip
    saved = save_graphs(pair, tmp_path, "all.bin")
    sessions = [
        PortableSession(
            *(DecoderGraph(files[role], threads=1) for role in ("prefill", "decode")),
            n_slots=1, max_context=SHAPE.context, mask=Mask(),
        )
        for files in (told.files, {role: one.path for role, one in saved.items()})
    ]  # fmt: skip
    prompt = np.array([PROMPTS[0]], np.int64)
    for batch in (
        Batch(0, prompt[:, :5], np.zeros(1, np.int64), "all"),
        Batch(0, prompt[:, :5], np.zeros(1, np.int64)),
        Batch(0, prompt[:, 5:6], np.array([5])),
    ):
        one, other = (session.step(batch).logits for session in sessions)
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)
