from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.errors import GraphError
from chipwise.model.model import Model
from chipwise.rewrite.runner import Runner
from chipwise.verify.attribution.boundaries import cuttable
from chipwise.verify.attribution.decoder_pair import DecoderPair
from tests.verify.attribution.pairs import TEXT, Files, fixed_pair, fused, pair


@pytest.mark.parametrize("written", [pair, fixed_pair, fused])
@pytest.mark.parametrize("kind", ["llama", "gemma"])
def test_the_parts_in_a_row_compute_what_the_graph_does(
    written: Callable[[Path, Model], Files], kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    files = written(tmp_path, request.getfixturevalue(kind))
    both = DecoderPair(files, files, threads=1)
    text = both.fit(TEXT)
    assert text is not None
    bases = list(both.bases(text))
    # Prefill once; of an answer of four tokens (two where prefill ends at eight) some steps.
    assert len(bases) == {pair: 3, fixed_pair: 3, fused: 1}[written]
    for base, role in zip(bases, ["prefill" if "prefill" in files else "decoder", "decode", "decode"], strict=False):
        past = {name: array for name, array in base.values["reference"].items() if name.startswith("past.")}
        feed = {**base.mixture.feeds["reference"], **past}
        whole = Runner(ir.load(files[role]), threads=1).run(feed)
        assert set(whole) <= set(base.values["reference"])
        for name, array in whole.items():
            assert np.allclose(base.values["reference"][name], array, atol=1e-5), (role, name)


def test_steps_predict_what_reading_does(llama: Model, tmp_path: Path) -> None:
    files = pair(tmp_path, llama)
    read, *steps = DecoderPair(files, files, threads=1).bases(TEXT)
    logits = read.values["reference"]["logits"]
    for step in steps:
        assert step.tokens is not None
        assert np.allclose(step.values["reference"]["logits"][0], logits[step.tokens], atol=1e-4)


def test_what_is_no_graph_is_said_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(b"\xff" * 40)
    with pytest.raises(GraphError, match="not an ONNX file"):
        cuttable(tmp_path / "a.onnx")
    with pytest.raises(GraphError, match="cannot read"):
        cuttable(tmp_path / "b.onnx")
