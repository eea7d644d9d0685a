from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tokenizers import Tokenizer, models, pre_tokenizers

from chipwise.errors import DependencyError, InputError, ModelFormatError
from chipwise.verify.semantic import locate
from chipwise.verify.semantic.locate import installed_model, open_embedder
from tests.model.encoder.random_bert import write_folder

WORDS = ["[PAD]", "[UNK]", "turn", "on", "off", "lamp"]


def tokenizer(folder: Path) -> None:
    fast = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    fast.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast.save(str(folder / "tokenizer.json"))


def graph(folder: Path, output: str = "last_hidden_state", name: str = "input_ids") -> Path:
    """A row of a table for each token."""
    table = np.random.default_rng(1).normal(size=(len(WORDS), 5)).astype(np.float32)
    node = helper.make_node("Gather", ["table", name], [output])
    made = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "s"])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["b", "s", 5])],
        [onnx.numpy_helper.from_array(table, "table")],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "model.onnx")
    return folder


def test_means_over_tokens_do_not_see_the_padding(tmp_path: Path) -> None:
    tokenizer(tmp_path)
    with open_embedder(graph(tmp_path), threads=1) as embedder:
        together = embedder.embed(["turn on", "lamp", "turn off lamp on on", "what"])
        alone = [embedder.embed([text]).vectors[0] for text in ("turn on", "lamp", "turn off lamp on on", "what")]
    assert np.allclose(together.vectors, alone, atol=1e-6)
    assert np.allclose(np.linalg.norm(together.vectors, axis=1), 1, atol=1e-6)
    assert together.tokens[0] == (2, 3)
    assert together.unknown == pytest.approx(1 / 9)
    assert embedder.name == tmp_path.name


def test_many_and_long_and_empty_texts(tmp_path: Path) -> None:
    tokenizer(tmp_path)
    with open_embedder(graph(tmp_path), threads=1) as embedder:
        found = embedder.embed(["lamp " * i for i in range(40)] + ["on " * 5000])
        assert embedder.embed([]).vectors.shape == (0, 0)
    assert found.vectors.shape == (41, 5)
    assert np.isfinite(found.vectors).all()
    assert np.allclose(found.vectors[1], found.vectors[39], atol=1e-6)
    assert max(map(len, found.tokens)) == 256


def test_an_encoder_in_safetensors_is_written_first(tmp_path: Path) -> None:
    folder = write_folder("minilm_like", tmp_path / "bert")
    tokenizer(folder)
    with open_embedder(folder, threads=1) as embedder:
        vectors = embedder.embed(["turn on", "turn off", "lamp lamp lamp"]).vectors
    assert vectors.shape == (3, 48)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert not np.allclose(vectors[0], vectors[1])
    assert not list(folder.glob("*.onnx"))


def test_what_is_no_embedding_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(kind: type[Exception], words: str) -> None:
        with pytest.raises(kind, match=words), open_embedder(tmp_path, threads=1):
            pass

    with pytest.raises(InputError, match="no such folder"), open_embedder(tmp_path / "none"):
        pass
    refused(ModelFormatError, "cannot read the tokenizer")
    tokenizer(tmp_path)
    refused(InputError, "the folder has no config.json")
    graph(tmp_path, output="logits")
    refused(InputError, "gives logits")
    graph(tmp_path, name="pixels")
    refused(InputError, "takes pixels")
    (tmp_path / "model.onnx").write_bytes(b"no")
    refused(InputError, "not an ONNX model")
    (tmp_path / "model.onnx").unlink()
    monkeypatch.setattr(locate, "_WRITER", "chipwise_missing_writer")
    refused(DependencyError, "chipwise_missing_writer")


def test_the_package_is_found_by_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "_MODULE", "a_package_of_nobody")
    assert installed_model() is None
    (tmp_path / "a_package_of_nobody" / "model").mkdir(parents=True)
    (tmp_path / "a_package_of_nobody" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert installed_model() is None
    (tmp_path / "a_package_of_nobody" / "model" / "config.json").touch()
    assert installed_model() == tmp_path / "a_package_of_nobody" / "model"
