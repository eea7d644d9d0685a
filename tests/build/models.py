"""A tiny decoder, a tiny encoder and a small net as the files a user has, with queries and samples for them."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper as oh
from onnx import numpy_helper as nh
from safetensors.numpy import save_file
from tokenizers import Tokenizer as FastTokenizer
from tokenizers import decoders, models, pre_tokenizers, processors

from chipwise.model.importer.canonical_names import decoder_shapes, encoder_shapes
from chipwise.model.importer.fields import Fields
from chipwise.model.importer.hf_decoder_config import decoder_config
from chipwise.model.importer.hf_encoder_config import encoder_config

WORDS = [f"word{i}" for i in range(90)]
_SPECIAL = ["<pad>", "<unk>", "<end>", "[CLS]", "[SEP]"]
VOCAB = len(_SPECIAL) + len(WORDS)
_LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "hidden_act": "silu",
}
_BERT: dict[str, Any] = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-6,
    "hidden_act": "gelu",
    "pad_token_id": 0,
}


def write_decoder(folder: Path, *, layers: int = 2) -> Path:
    """A Hugging Face folder of a llama of 0.1 million parameters."""
    settings = {**_LLAMA, "num_hidden_layers": layers}
    config = decoder_config(Fields(settings, "config.json"), "llama")
    return _write(folder, settings, decoder_shapes(config))


def write_encoder(folder: Path) -> Path:
    """A Hugging Face folder of a bert of the same size."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(_BERT))
    return _write(folder, _BERT, encoder_shapes(encoder_config(Fields(_BERT, "config.json"), folder)))


def write_queries(path: Path, n: int = 24) -> Path:
    """Queries of three to twelve words."""
    random = np.random.RandomState(5)
    texts = [" ".join(random.choice(WORDS, random.randint(3, 13))) for _ in range(n)]
    path.write_text("\n".join(json.dumps({"text": text}) for text in texts))
    return path


def write_net(path: Path, *, classes: int = 6) -> Path:
    """A net with a convolution, a normalization, a depthwise convolution and a classifier."""
    random = np.random.RandomState(9)

    def draw(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    constants = {
        "w1": draw(8, 3, 3, 3), "b1": random.standard_normal(8).astype(np.float32),
        "scale": np.linspace(0.5, 2, 8, dtype=np.float32), "shift": np.linspace(-1, 1, 8, dtype=np.float32),
        "mean": np.zeros(8, np.float32), "var": np.ones(8, np.float32), "w2": draw(8, 1, 3, 3),
        "w3": draw(classes, 8), "b3": random.standard_normal(classes).astype(np.float32),
    }  # fmt: skip
    nodes = [
        oh.make_node("Conv", ["image", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2]),
        oh.make_node("BatchNormalization", ["c1", "scale", "shift", "mean", "var"], ["n1"]),
        oh.make_node("Relu", ["n1"], ["r1"]),
        oh.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1], group=8),
        oh.make_node("Relu", ["c2"], ["r2"]),
        oh.make_node("GlobalAveragePool", ["r2"], ["pool"]),
        oh.make_node("Flatten", ["pool"], ["flat"]),
        oh.make_node("Gemm", ["flat", "w3", "b3"], ["logits"], transB=1),
    ]
    graph = oh.make_graph(
        nodes,
        "net",
        [oh.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["batch", 3, 16, 16])],
        [oh.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", classes])],
        [nh.from_array(array, name) for name, array in constants.items()],
    )
    onnx.save(oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=9), path)
    return path


def write_images(path: Path, n: int = 18, spread: float = 1.0) -> Path:
    """Images for the net in one file."""
    random = np.random.RandomState(3)
    np.savez(path, image=(random.standard_normal((n, 3, 16, 16)) * spread).astype(np.float32))
    return path


def _write(folder: Path, settings: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>", "pad_token": "<pad>"}))
    _tokenizer().save(str(folder / "tokenizer.json"))
    weights = {name: _draw(name, shape) for name, shape in shapes.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _draw(name: str, shape: tuple[int, ...]) -> np.ndarray:
    drawn = np.random.RandomState(zlib.crc32(name.encode())).standard_normal(shape)
    if len(shape) == 1:
        return (0.1 * drawn + (0 if name.endswith("bias") else 1)).astype(np.float32)
    return (drawn * 1.5 / np.sqrt(shape[-1])).astype(np.float32)


def _tokenizer() -> FastTokenizer:
    fast = FastTokenizer(models.WordLevel({word: i for i, word in enumerate([*_SPECIAL, *WORDS])}, unk_token="<unk>"))
    fast.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    fast.add_special_tokens(_SPECIAL)
    fast.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 3), ("[SEP]", 4)]
    )
    return fast
