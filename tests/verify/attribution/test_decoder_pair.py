from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx_ir as ir
import pytest

from chipwise.errors import GraphError, InputError
from chipwise.model.model import Model
from chipwise.verify.attribution.decoder_pair import DecoderPair
from chipwise.verify.attribution.phase import Text
from tests.quant.random_weights import RandomWeights
from tests.verify.attribution.pairs import TEXT, fixed_pair, fused, pair


def test_another_number_of_layers(llama: Model, tmp_path: Path) -> None:
    config = replace(llama.config, n_layers=1)  # type: ignore[type-var]
    shorter = replace(llama, config=config, weights=RandomWeights(config))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="it has 1 layers, the reference 2"):
        DecoderPair(fused(tmp_path, llama), fused(tmp_path, shorter, "shorter"))


def test_a_bundle_of_another_model(llama: Model, tmp_path: Path) -> None:
    files = fused(tmp_path, llama)
    with pytest.raises(InputError, match="the candidate has no graph of a decoder"):
        DecoderPair(files, {"graph": files["decoder"]})


def test_another_length(llama: Model, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="other lengths"):
        DecoderPair(pair(tmp_path, llama), fixed_pair(tmp_path, llama, "fixed"))


def test_a_graph_that_names_no_layers(llama: Model, tmp_path: Path) -> None:
    def forget(graphs: dict[str, ir.Model]) -> None:
        for graph in graphs.values():
            for node in graph.graph:
                for value in node.outputs:
                    if value.name == "embedded":
                        value.name = "x"

    with pytest.raises(GraphError, match="build the bundle again"):
        DecoderPair(fused(tmp_path, llama), fused(tmp_path, llama, "old", forget))


def test_a_text_is_cut_to_what_prefill_reads(llama: Model, tmp_path: Path) -> None:
    files = fixed_pair(tmp_path, llama)
    both = DecoderPair(files, files)
    assert both.room == 8
    assert both.fit(TEXT) == Text(TEXT.prompt, TEXT.answer[:2])
    assert both.fit(Text(tuple(range(3, 12)))) is None
