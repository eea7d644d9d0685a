"""The session over a plain graph, and every way a context of it can fail."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from chipwise.engine.graph_session import GraphEngine, GraphSession
from chipwise.engine.rknn import RknnEngine
from chipwise.errors import ChipwiseError, EngineError, InputError, ModelFormatError
from chipwise.model.rknn_file import read_rknn_file
from tests.engine.conftest import MakeBoard
from tests.engine.rknn.computing import by_projection
from tests.engine.rknn.rknn_files import write_rknn

# Compiled by rknn-toolkit2 2.5.0 for rk3566 in w8a8: an image [1, 3, 16, 16], scores [1, 10].
CONV = Path(__file__).parents[2] / "model" / "rknn" / "conv_rk3566_w8a8.rknn"
IMAGE = np.random.default_rng(0).normal(size=(1, 3, 16, 16)).astype(np.float32)


@pytest.fixture
def compute(lite: ModuleType) -> Any:
    compute = by_projection(read_rknn_file(CONV).inputs, 10)
    lite.MODELS[CONV.read_bytes()] = compute
    return compute


def _open(board: MakeBoard, path: Path = CONV, *, chip: str = "rk3566", **options: Any) -> GraphSession:
    return RknnEngine(board(chip)).open_graph(path, options=options)


def _why(board: MakeBoard, path: Path = CONV, *, chip: str = "rk3566", **options: Any) -> str:
    with pytest.raises(ChipwiseError) as caught:
        _open(board, path, chip=chip, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_compiled_graph_runs(compute: Any, lite: ModuleType, board: MakeBoard) -> None:
    session = _open(board, toolkit_version="2.5.0")
    assert (session.input_names, session.output_names) == (("image",), ("scores",))
    found = session.run({"image": IMAGE})
    assert found["scores"].tolist() == compute([IMAGE], [0])[0].tolist()
    (made,) = lite.MADE[-1:]
    handed, data_format, pass_through = made.asked[-1]
    assert (handed[0].dtype, data_format, pass_through, made.core_mask) == (np.float32, ["nchw"], None, 0)
    assert handed[0] is IMAGE  # not copied
    session.close()
    session.close()
    assert made.released == 1
    with pytest.raises(EngineError, match="the session is closed"):
        session.run({"image": IMAGE})


def test_it_is_a_graph_engine() -> None:
    assert isinstance(RknnEngine(), GraphEngine)


def test_opening_prints_nothing(compute: Any, board: MakeBoard, capfd: pytest.CaptureFixture[str]) -> None:
    _open(board).close()
    assert capfd.readouterr() == ("", "")


def test_a_model_for_the_other_name_of_the_same_npu(compute: Any, board: MakeBoard) -> None:
    _open(board, chip="rk3568").close()


def test_a_model_for_another_chip(lite: ModuleType, board: MakeBoard) -> None:
    text = _why(board, chip="rk3588")
    assert "the model is for rk3566, and this board has an rk3588; build it with --target rk3588" in text
    assert not lite.MADE or lite.MADE[-1].released  # the runtime was not asked


def test_a_file_that_is_none(lite: ModuleType, board: MakeBoard, tmp_path: Path) -> None:
    path = tmp_path / "x.rknn"
    path.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelFormatError, match="begins with b'GGUF'"):
        _open(board, path)


def test_a_pc_is_told_before_anything_is_loaded() -> None:
    with pytest.raises(InputError, match="'rknn' runs on a Rockchip board"):
        RknnEngine(Path("/nowhere")).open_graph(CONV, options={})


def test_a_board_without_the_package(board: MakeBoard) -> None:
    assert "rknn-toolkit-lite2 is not installed" in _why(board)


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("old_runtime", "librknnrt.so 1.4.0 does not know format version 6 of the file, which toolkit 2.5.0 wrote"),
        ("not_rknn", "librknnrt.so 2.5.0 takes the file for no .rknn file"),
        ("other_chip", "the model is for rk3566, and the runtime says that this board (rk3566) is none"),
        ("no_driver", "the kernel has no rknpu driver"),
        ("no_memory", "the NPU found no memory for the model"),
        ("no_library", "librknnrt.so is not on this board"),
        ("no_library64", "librknnrt.so is not on this board"),
        ("old_library", "it has no rknn_set_core_mask"),
        ("container", "a container hides it"),
        ("odd", "the runtime says: Exception: RKNN init failed. error code: RKNN_ERR_CTX_INVALID"),
        ("pc", "runs on a Rockchip board only"),
        ("silent", "the runtime cannot load the model: it printed nothing"),
        ("unreadable", "cannot read the file: the runtime says: Invalid RKNN model path"),
    ],
)
def test_what_keeps_a_model_from_loading(
    fault: str, text: str, compute: Any, lite: ModuleType, board: MakeBoard, capfd: pytest.CaptureFixture[str]
) -> None:
    lite.FAULT["name"] = fault
    message = _why(board)
    assert text in message
    assert message.startswith(str(CONV))
    assert lite.MADE[-1].released == 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("inputs", "an input of another shape"),
        ("timeout", "did not finish the model in time"),
        ("raises", "the runtime failed on a run: the runtime says: ValueError: a bug of its own"),
        ("one_output_too_few", "returned 0 outputs, the file names 1"),
        ("flat", r"returned [1, 1] for scores, which is [1, 10]"),
    ],
)
def test_what_keeps_a_run_from_ending(fault: str, text: str, compute: Any, lite: ModuleType, board: MakeBoard) -> None:
    session = _open(board)
    lite.FAULT["name"] = fault
    with pytest.raises(EngineError) as caught:
        session.run({"image": IMAGE})
    assert text in str(caught.value)
    lite.FAULT["name"] = None
    assert np.isfinite(session.run({"image": IMAGE})["scores"]).all()


def test_wrong_feeds_never_reach_the_runtime(compute: Any, lite: ModuleType, board: MakeBoard) -> None:
    session = _open(board)
    asked = len(lite.MADE[-1].asked)
    for feed in ({}, {"image": IMAGE[:, :, :8]}, {"image": IMAGE, "more": IMAGE}):
        with pytest.raises(EngineError):
            session.run(feed)
    assert len(lite.MADE[-1].asked) == asked


def test_contexts_run_at_once_each_on_its_core(lite: ModuleType, board: MakeBoard, tmp_path: Path) -> None:
    path = write_rknn(tmp_path / "m.rknn", {"x": (1, 2)}, {"y": (1, 2)})
    together = threading.Barrier(3, timeout=10)

    def compute(inputs: list[np.ndarray], pass_through: list[int]) -> list[np.ndarray]:
        together.wait()  # passes only if three runs are on their way
        return [inputs[0] * 2]

    lite.MODELS[path.read_bytes()] = compute
    session = RknnEngine(board("rk3588")).open_graph(path, options={"contexts": 3})
    assert [made.core_mask for made in lite.MADE[-3:]] == [1, 2, 4]
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda i: session.run({"x": np.full((1, 2), i)})["y"][0, 0], range(12)))
    assert found == [2 * i for i in range(12)]
    assert [len(made.asked) for made in lite.MADE[-3:]] == [4, 4, 4]
    session.close()
    assert [made.released for made in lite.MADE[-3:]] == [1, 1, 1]


def test_whoever_waits_for_a_context_of_a_closed_session_is_told(
    lite: ModuleType, board: MakeBoard, tmp_path: Path
) -> None:
    path = write_rknn(tmp_path / "m.rknn", {"x": (1, 2)}, {"y": (1, 2)})
    entered, go_on = threading.Event(), threading.Event()

    def compute(inputs: list[np.ndarray], pass_through: list[int]) -> list[np.ndarray]:
        entered.set()
        assert go_on.wait(10)
        return inputs

    lite.MODELS[path.read_bytes()] = compute
    session = RknnEngine(board("rk3588")).open_graph(path, options={})
    feed = {"x": np.zeros((1, 2), np.float32)}
    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(session.run, feed)
        assert entered.wait(10)
        closing = threads.submit(session.close)
        while not session._closed:  # type: ignore[attr-defined]
            time.sleep(0.001)
        late = threads.submit(session.run, feed)
        go_on.set()
        closing.result(10)
        assert first.result(10)["y"].shape == (1, 2)
        with pytest.raises(EngineError, match="closed"):
            late.result(10)
    assert lite.MADE[-1].released == 1


def test_a_second_context_that_fails_closes_the_first(compute: Any, lite: ModuleType, board: MakeBoard) -> None:
    before = len(lite.MADE)
    real = lite.RKNNLite.init_runtime

    def second_fails(self: Any, *, core_mask: int) -> int:
        lite.FAULT["name"] = "no_memory" if len(lite.MADE) - before == 2 else None
        result: int = real(self, core_mask=core_mask)
        return result

    lite.RKNNLite.init_runtime = second_fails
    assert "or open it in fewer contexts" in _why(board, contexts=2)
    assert [made.released for made in lite.MADE[before:]] == [1, 1]


def test_int8_inputs_are_handed_over_as_they_are_if_asked(
    lite: ModuleType, board: MakeBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from chipwise.engine.rknn import engine
    from chipwise.model.rknn_file import RknnTensor

    file = replace(read_rknn_file(CONV), inputs=(RknnTensor("x", (1, 768), "int8", 0.05, 15),))
    monkeypatch.setattr(engine, "read_rknn_file", lambda path: file)
    lite.MODELS[CONV.read_bytes()] = by_projection(file.inputs, 10)
    values = IMAGE.reshape(1, 768)
    plain = _open(board).run({"x": values})["scores"]
    session = RknnEngine(board("rk3568")).open_graph(CONV, options={"pass_through": True})
    stepped = session.run({"x": values})["scores"]
    handed, data_format, pass_through = lite.MADE[-1].asked[-1]
    assert (handed[0].dtype, data_format, pass_through) == (np.int8, None, [1])
    # A step is 0.05: rounding moves a value by 0.025 at most, a sum of 768 of weight 1 by far less than 3.
    assert 0 < np.abs(stepped - plain).max() < 3
