from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from chipwise.errors import InputError
from chipwise.model.encoder import EncoderSpec, build_encoder
from chipwise.model.importer import load_model
from chipwise.model.onnx_file_writer import save_graph
from tests.model.encoder.random_bert import CASES, inputs, write_folder
from tests.model.encoder.write_golden import GOLDEN, reference

OUTPUTS = ["last_hidden_state", "sentence_embedding"]
TOLERANCE = 1e-4


def _graph(folder: Path, spec: EncoderSpec) -> ir.Model:
    model = load_model(folder)
    return build_encoder(model.config, model.weights, spec)


def _run(model: ir.Model, folder: Path, feeds: dict[str, Any]) -> dict[str, np.ndarray]:
    path = save_graph(model, folder, "encoder").path
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return dict(zip(OUTPUTS, session.run(OUTPUTS, feeds), strict=True))


def _check(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    for name in OUTPUTS:
        assert found[name].shape == wanted[name].shape
        assert np.abs(found[name] - wanted[name]).max() < TOLERANCE * np.abs(wanted[name]).max(), name


def _golden(case: str) -> dict[str, np.ndarray]:
    with np.load(GOLDEN) as file:
        return {name: file[f"{case}.{name}"] for name in OUTPUTS}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("spec", [EncoderSpec(), EncoderSpec(3, 13)], ids=["dynamic", "static"])
def test_it_answers_as_transformers(case: str, spec: EncoderSpec, tmp_path: Path) -> None:
    graph = _graph(write_folder(case, tmp_path / case), spec)
    _check(_run(graph, tmp_path, inputs()), _golden(case))


@pytest.mark.parametrize("mask_value", [-30.0, -1e4])
def test_padding_does_not_matter(mask_value: float, tmp_path: Path) -> None:
    """A text alone, without padding and with more of it than before, gives what it gave in a padded batch."""
    folder = write_folder("minilm_like", tmp_path / "model")
    graph = _graph(folder, EncoderSpec(mask_value=mask_value))
    wanted = _golden("minilm_like")["sentence_embedding"][1:2]
    for length in (7, 24):
        feeds = {name: np.zeros((1, length), np.int64) for name in inputs()}
        for name, values in inputs().items():
            feeds[name][0, :7] = values[1, :7]
        assert np.abs(_run(graph, tmp_path, feeds)["sentence_embedding"] - wanted).max() < TOLERANCE


def test_a_text_of_padding_alone_gives_numbers(tmp_path: Path) -> None:
    graph = _graph(write_folder("minilm_like", tmp_path / "model"), EncoderSpec())
    found = _run(graph, tmp_path, {name: np.zeros((1, 5), np.int64) for name in inputs()})
    assert np.isfinite(found["last_hidden_state"]).all()
    assert (found["sentence_embedding"] == 0).all()


def test_static_graph_is_standard_onnx(tmp_path: Path) -> None:
    graph = _graph(write_folder("plain", tmp_path), EncoderSpec(1, 16))
    proto = ir.to_proto(graph)
    onnx.checker.check_model(proto, full_check=True)
    assert [(entry.domain, entry.version) for entry in proto.opset_import] == [("", 17)]
    assert not {"Erf", "LayerNormalization"} - {node.op_type for node in proto.graph.node}
    norms = [node for node in graph.graph if node.op_type == "LayerNormalization"]
    assert all(node.attributes.get_float("epsilon") == pytest.approx(1e-6) for node in norms)
    shaped = onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True).graph
    shapes = [value.type.tensor_type.shape.dim for value in [*shaped.input, *shaped.value_info, *shaped.output]]
    assert all(dim.HasField("dim_value") for shape in shapes for dim in shape)
    assert max(len(shape) for shape in shapes) == 4


def test_more_tokens_than_positions(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="25 tokens, the model has 24 positions"):
        _graph(write_folder("plain", tmp_path), EncoderSpec(1, 25))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_stored_answers_are_those_of_transformers(case: str, tmp_path: Path) -> None:
    pooling, normalize = CASES[case][1] or ("mean", False)
    folder = write_folder(case, tmp_path)
    wanted = reference(folder, inputs(), pooling=pooling, normalize=normalize, double=True)
    for name, values in _golden(case).items():
        assert np.abs(values - wanted[name]).max() < 1e-6


@pytest.mark.slow
def test_minilm_answers_as_transformers(minilm: Path, tmp_path: Path) -> None:
    model = load_model(minilm)
    texts = ["Turn on the kitchen light.", "打开厨房的灯。", "The pump in hall three vibrates at 12 Hz and runs hot."]
    tokens = [model.tokenizer.encode_framed(text) for text in texts]
    width = max(map(len, tokens))
    ids, mask = np.zeros((3, width), np.int64), np.zeros((3, width), np.int64)
    for row, text in enumerate(tokens):
        ids[row, : len(text)], mask[row, : len(text)] = text, 1
    feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    wanted = reference(minilm, feeds, pooling="mean", normalize=True, double=False)
    for spec in (EncoderSpec(), EncoderSpec(3, width)):
        _check(_run(build_encoder(model.config, model.weights, spec), tmp_path, feeds), wanted)
