"""A bundle for a Rockchip chip: what opening it says on the board, and on a PC."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from chipwise.bundle import BundleWriter, EngineSpec, Manifest, ModelInfo, SelfTest, keep_graph_test, open_bundle
from chipwise.bundle.manifest import GRAPH, TEST_INPUTS, TEST_OUTPUTS
from chipwise.cli.main import main
from chipwise.engine import registry
from chipwise.engine.rknn import RknnEngine
from chipwise.errors import BundleError
from chipwise.model.rknn_file import read_rknn_file
from tests.engine.conftest import MakeBoard
from tests.engine.rknn.computing import by_projection
from tests.engine.rknn.rknn_files import rknn_bytes
from tests.engine.rknn.test_graph import CONV, IMAGE

ROOT = Path(__file__).parents[3]
COMPUTE = by_projection(read_rknn_file(CONV).inputs, 10)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A plain graph for rk3566 with what a simulator computed."""
    outputs = {"scores": COMPUTE([IMAGE], [0])[0]}
    test, inputs, expected = keep_graph_test({"image": IMAGE}, outputs, tolerance=0.05)
    with BundleWriter(tmp_path / "b") as writer:
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
def decoder_bundle(tmp_path: Path, home_agent: Path) -> Path:
    """A decoder's two compiled graphs with a tokenizer, for rk3588."""
    from chipwise.model.importer import load_model

    with BundleWriter(tmp_path / "d") as writer:
        for role in ("prefill", "decode"):
            writer.add_bytes(role, rknn_bytes({"input_ids": (1, 1)}, {"logits": (1, 9)}, salt=role), ".rknn")
        tokenizer = load_model(home_agent).tokenizer
        assert tokenizer is not None
        writer.add_tokenizer(tokenizer)
        manifest = Manifest(
            name="agent",
            target="rk3588",
            engine=EngineSpec("rknn", {"mask_value": -30.0}),
            model=ModelInfo({"max_positions": 64}, "huggingface", "agent"),
            self_test=SelfTest((1, 2), (3,), (), 0.5),
        )
        return writer.commit(manifest)


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


def _one_line(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, str]:
    code = main([*command])
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return code, err


def test_on_a_pc_a_decoder_is_neither_served_nor_verified(
    decoder_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = (2, "the engine 'rknn' runs on a Rockchip board, and this is a")
    code, err = _one_line(capsys, "serve", str(decoder_bundle))
    assert (code, wanted[1] in err) == (2, True)
    suite = tmp_path / "s.jsonl"
    suite.write_text('{"id": "a", "prompt": "on", "keywords": ["on"]}\n')
    code, err = _one_line(capsys, "verify", str(decoder_bundle), "--suite", str(suite))
    assert (code, wanted[1] in err) == (2, True)


def test_on_a_pc_a_plain_graph_is_shown_and_not_served(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(bundle)]) == 0
    assert "engine     rknn (toolkit_version=2.5.0)" in capsys.readouterr().out
    code, err = _one_line(capsys, "serve", str(bundle))
    assert code == 2
    assert "no tokenizer" in err
