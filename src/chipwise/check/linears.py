"""Linears: the matrix products with constant weights of a model, from its graph or from its config."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from chipwise.check.check_input import CheckInput, label
from chipwise.check.constants import constant_tensor
from chipwise.model.config import DecoderConfig, EncoderConfig


@dataclass(frozen=True)
class Linear:
    """A product with a constant matrix.

    Attributes:
        name: What to call it.
        k: Length of the sum; for a convolution of more than one position, of all of them.
        n: Outputs.
        count: How many of this kind the model has.
        is_head: Whether it is a language model's output layer.
        channels: Channels of the input where they are not ``k``: a convolution's.
    """

    name: str
    k: int
    n: int
    count: int = 1
    is_head: bool = False
    channels: int | None = None

    @property
    def values(self) -> int:
        """Weights of one."""
        return self.k * self.n


def linears(given: CheckInput) -> tuple[Linear, ...]:
    """The linear layers, those of one kind once."""
    if given.graph is not None:
        return tuple(_of_graph(given.nodes))
    if isinstance(given.config, DecoderConfig):
        return tuple(_of_decoder(given.config))
    if isinstance(given.config, EncoderConfig):
        return tuple(_of_encoder(given.config))
    return ()


def _of_graph(nodes: tuple[ir.Node, ...]) -> Iterator[Linear]:
    found: dict[tuple[int, int, int | None], list[str]] = {}
    for node in nodes:
        size = _matrix(node)
        if size is not None:
            found.setdefault(size, []).append(label(node))
    for (k, n, channels), names in found.items():
        name = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        yield Linear(name, k, n, len(names), channels=channels)


def _matrix(node: ir.Node) -> tuple[int, int, int | None] | None:
    """The k, n and channels of a MatMul, Gemm or Conv with a constant weight."""
    if node.domain or node.op_type not in ("MatMul", "Gemm", "Conv") or len(node.inputs) < 2:
        return None
    tensor = constant_tensor(node.inputs[1])
    if tensor is None or len(tensor.shape) < 2:
        return None
    shape = tensor.shape.numpy()
    if node.op_type == "Conv":
        group = node.attributes["group"].as_int() if "group" in node.attributes else 1
        return math.prod(shape[1:]), shape[0], shape[1] * group
    transposed = node.op_type == "Gemm" and "transB" in node.attributes and node.attributes["transB"].as_int()
    return (shape[-1], shape[-2], None) if transposed else (shape[-2], shape[-1], None)


def _of_decoder(config: DecoderConfig) -> Iterator[Linear]:
    wide, narrow = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    layers = config.n_layers
    yield Linear("self_attn.q_proj", config.hidden_size, wide, layers)
    yield Linear("self_attn.k_proj, v_proj", config.hidden_size, narrow, 2 * layers)
    yield Linear("self_attn.o_proj", wide, config.hidden_size, layers)
    yield Linear("mlp.gate_proj, up_proj", config.hidden_size, config.ffn_size, 2 * layers)
    yield Linear("mlp.down_proj", config.ffn_size, config.hidden_size, layers)
    yield Linear("lm_head", config.hidden_size, config.vocab_size, is_head=True)


def _of_encoder(config: EncoderConfig) -> Iterator[Linear]:
    yield Linear("attention.self, attention.output", config.hidden_size, config.hidden_size, 4 * config.n_layers)
    yield Linear("intermediate.dense", config.hidden_size, config.ffn_size, config.n_layers)
    yield Linear("output.dense", config.ffn_size, config.hidden_size, config.n_layers)
