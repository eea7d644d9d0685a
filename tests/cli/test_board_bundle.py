"""What the commands say of a bundle for a Rockchip chip on a machine that is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chipwise.bundle import BundleWriter, EngineSpec, Manifest, ModelInfo, SelfTest
from chipwise.cli.main import main
from chipwise.model.importer import load_model
from tests.engine.rknn.rknn_files import rknn_bytes
from tests.engine.rknn.test_self_test import write_graph_bundle

NO_BOARD = "runs on a Rockchip board, and this is a"


def _decoder_bundle(folder: Path, home_agent: Path, engine: str) -> Path:
    with BundleWriter(folder) as writer:
        for role in ("rkllm",) if engine == "rkllm" else ("prefill", "decode"):
            writer.add_bytes(role, rknn_bytes({"input_ids": (1, 1)}, {"logits": (1, 9)}, salt=role), f".{engine}")
        tokenizer = load_model(home_agent).tokenizer
        assert tokenizer is not None
        writer.add_tokenizer(tokenizer)
        manifest = Manifest(
            name="agent",
            target="rk3588",
            engine=EngineSpec(engine),
            model=ModelInfo({"max_positions": 4096}, "huggingface", "agent"),
            self_test=SelfTest((1, 2), (3,), (), 0.5),
        )
        return writer.commit(manifest)


def _fails(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    assert main([*command]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize("engine", ["rknn", "rkllm"])
def test_a_decoder_is_neither_served_nor_verified(
    engine: str, tmp_path: Path, home_agent: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = _decoder_bundle(tmp_path / "b", home_agent, engine)
    assert f"the engine '{engine}' {NO_BOARD}" in _fails(capsys, "serve", str(bundle))
    suite = tmp_path / "s.jsonl"
    suite.write_text(json.dumps({"id": "a", "prompt": "on", "keywords": ["on"]}) + "\n")
    assert f"the engine '{engine}' {NO_BOARD}" in _fails(capsys, "verify", str(bundle), "--suite", str(suite))
    assert main(["inspect", str(bundle)]) == 0
    assert f"engine     {engine}" in capsys.readouterr().out


def test_a_plain_graph_is_shown_here_and_served_on_its_board(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = write_graph_bundle(tmp_path / "b")
    assert main(["inspect", str(bundle)]) == 0
    assert "engine     rknn (toolkit_version=2.5.0)" in capsys.readouterr().out
    assert f"the engine 'rknn' {NO_BOARD}" in _fails(capsys, "serve", str(bundle))
