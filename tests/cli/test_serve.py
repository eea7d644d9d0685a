from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from chipwise.cli.serve import _say_ready
from chipwise.engine.graph_session import TensorSpec
from chipwise.serve.assembly.assembly import Served
from chipwise.serve.hardware.rung import Variant
from tests.serve.fakes import null_encoder, null_graph, null_model

IMAGE = TensorSpec("image", (None, 3, 4, 6), np.dtype(np.float32))


@pytest.mark.parametrize("chip", [None, "rk3588"])
def test_an_emulated_chip_is_named_at_the_start(chip: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    chat, graph = replace(null_model(), emulates=chip), replace(null_graph(IMAGE), emulates=chip)
    _say_ready(Served(chat, graph=graph), "http://127.0.0.1:1", slots=4)
    out = capsys.readouterr().out
    assert "ready at http://127.0.0.1:1/v1" in out
    for name in ("null-bytes", "null-graph"):
        assert (f"{name} emulates rk3588's arithmetic on this machine" in out) is (chip is not None)


def test_each_model_is_named_with_a_line_to_try_it(capsys: pytest.CaptureFixture[str]) -> None:
    _say_ready(Served(None, null_encoder(), null_graph(IMAGE)), "http://127.0.0.1:1", slots=4)
    out = capsys.readouterr().out
    assert "serving null-encoder: embeddings of 6, texts of 64 tokens" in out
    assert "serving null-graph: tensors image [any, 3, 4, 6]" in out
    assert "curl http://127.0.0.1:1/v1/embeddings " in out
    assert "curl http://127.0.0.1:1/v1/infer\n" in out
    assert "live page" not in out


def test_variants_are_named_with_what_they_cost(capsys: pytest.CaptureFixture[str]) -> None:
    served = Served(null_model(), variants=(Variant("cool", "KL 0.03 nats, 95.0% of next tokens, gate pass"),))
    _say_ready(served, "http://127.0.0.1:1", slots=4)
    said = "variant cool, for when the board is too hot: KL 0.03 nats, 95.0% of next tokens, gate pass\n"
    assert said in capsys.readouterr().out
