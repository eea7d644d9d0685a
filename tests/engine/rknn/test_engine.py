"""Decoders: static prefill and decode graphs whose numbers come from ONNX Runtime behind the fake of the toolkit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
import pytest

from chipwise.bundle import record_self_test, run_self_test
from chipwise.engine import Session
from chipwise.engine.rknn import RknnEngine
from chipwise.errors import BundleError, EngineError
from chipwise.model.decoder import GraphSpec
from tests.engine.conftest import MakeBoard
from tests.engine.rknn.computing import by_onnxruntime
from tests.engine.rknn.rknn_files import rknn_bytes
from tests.model.decoder.random_models import WINDOW, tokens, write_folder
from tests.model.decoder.sessions import CONTEXT, check_session, golden, write_graph

MASK: dict[str, Any] = {"mask_value": -10000.0, "sliding_window": WINDOW}
Files = dict[str, Path]


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The static ONNX graphs a .rknn pair would be compiled from."""
    folder = tmp_path_factory.mktemp("gemma3")
    model = write_folder("gemma3", folder / "hf")
    return {
        "prefill": write_graph(model, folder / "prefill.onnx", GraphSpec("prefill", CONTEXT, 1, 32, 32)),
        "decode": write_graph(model, folder / "decode.onnx", GraphSpec("decode", CONTEXT, 1, 1, 1)),
    }


def _shapes(values: Any) -> dict[str, list[int]]:
    return {one.name: [dim.dim_value for dim in one.type.tensor_type.shape.dim] for one in values}


@pytest.fixture
def pair(graphs: Files, lite: ModuleType, tmp_path: Path) -> Files:
    files = {}
    for role, path in graphs.items():
        graph = onnx.load(path, load_external_data=False).graph
        inputs = _shapes(graph.input)
        data = rknn_bytes(inputs, _shapes(graph.output), targets=("rk3576",), toolkit="2.3.2", salt=role)
        files[role] = tmp_path / f"{role}.rknn"
        files[role].write_bytes(data)
        lite.MODELS[data] = by_onnxruntime(path, list(inputs))
    return files


@pytest.fixture
def session(pair: Files, board: MakeBoard) -> Iterator[Session]:
    opened = RknnEngine(board("rk3576")).open(pair, n_slots=3, max_context=CONTEXT, options=MASK)
    yield opened
    opened.close()


def _why(files: Files, root: Path, *, n_slots: int = 1, max_context: int = CONTEXT, **options: Any) -> str:
    with pytest.raises(EngineError) as caught:
        RknnEngine(root).open(files, n_slots=n_slots, max_context=max_context, options=options)
    return str(caught.value)


def test_it_computes_what_transformers_does(session: Session) -> None:
    check_session(session, golden("gemma3"))


def test_closing_releases_both(session: Session, lite: ModuleType) -> None:
    session.close()
    session.close()
    assert [made.released for made in lite.MADE[-2:]] == [1, 1]


def test_one_context_for_each_graph_and_the_core_that_was_named(
    pair: Files, board: MakeBoard, lite: ModuleType
) -> None:
    options = {**MASK, "core_mask": "0_1"}
    RknnEngine(board("rk3576")).open(pair, n_slots=1, max_context=16, options=options).close()
    assert [made.core_mask for made in lite.MADE[-2:]] == [3, 3]


def test_what_makes_no_decoder(pair: Files, board: MakeBoard, lite: ModuleType) -> None:
    root = board("rk3576")
    assert "needs the roles 'prefill' and 'decode'" in _why({"graph": pair["decode"]}, root, **MASK)
    assert "a decoder in 2 contexts" in _why(pair, root, contexts=2, **MASK)
    assert "0 slots" in _why(pair, root, n_slots=0)
    assert f"holds {CONTEXT} tokens, not {CONTEXT + 1}" in _why(pair, root, max_context=CONTEXT + 1, **MASK)
    assert "nothing says the mask_value of the graph; give it" in _why(pair, root)
    assert all(made.released == 1 for made in lite.MADE)


def test_graphs_the_wrong_way_round(pair: Files, board: MakeBoard, lite: ModuleType) -> None:
    swapped = {"prefill": pair["decode"], "decode": pair["prefill"]}
    assert "not a decode graph: it has no KV cache" in _why(swapped, board("rk3576"), **MASK)
    assert all(made.released == 1 for made in lite.MADE)


def test_a_decode_graph_that_does_not_load_releases_prefill(pair: Files, board: MakeBoard, lite: ModuleType) -> None:
    pair["decode"].write_bytes(rknn_bytes({"x": (1, 2)}, {"y": (1, 2)}, targets=("rk3576",)))
    assert "not a decoder graph: it has no input_ids" in _why(pair, board("rk3576"), **MASK)
    assert [made.released for made in lite.MADE] == [1]


def test_the_self_test_passes_and_names_known_faults(session: Session, lite: ModuleType) -> None:
    test = record_self_test(session, tokens()[:10], max_tokens=4)
    run_self_test(session, test, where="the bundle")
    lite.FAULT["name"] = "zeros"
    with pytest.raises(BundleError, match=r"all zeros: .* \(known: exSDPAttention on rk3576 .* issue 574;") as caught:
        run_self_test(session, test, where="the bundle")
    # The toolkit was 2.3.2, the board's runtime is the fake's.
    assert "toolkit 2.3.2 compiled it, another version than the runtime's; here: rk3576, librknnrt 2.5.0" in str(
        caught.value
    )
    lite.FAULT["name"] = "nan"
    with pytest.raises(BundleError, match=r"NaN or infinite \(known: .* issues 149 and 212"):
        run_self_test(session, test, where="the bundle")


def test_a_step_that_fails_is_an_error_of_the_engine(session: Session, lite: ModuleType) -> None:
    lite.FAULT["name"] = "timeout"
    with pytest.raises(EngineError, match="did not finish the model in time"):
        record_self_test(session, tokens()[:10], max_tokens=2)
