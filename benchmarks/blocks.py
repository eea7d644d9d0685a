"""Two small transformer blocks that 8 bits break, each with one fault that language models have.

All is drawn with a fixed seed; a block reads ``x [1, 32, 256]`` and gives ``y`` of the same shape. Each of its layers
is RMSNorm, attention of 4 heads with a causal mask that is added, RMSNorm, and a gated feed-forward (SiLU) of 512
channels, with a residual stream around both halves.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

LENGTH = 32
WIDTH = 256
_HEADS = 4
_HEAD = WIDTH // _HEADS
_INNER = 512
_EPSILON = 1e-5

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Block:
    """What is in a block.

    Attributes:
        mask: The number that masks.
        layers: How many layers.
        outliers: How many times larger a few channels are than their neighbours, wherever a weight can make them so:
            4 of 256 behind each norm (in its weight), 4 of 256 keys and values of attention (in their projections),
            6 of 512 channels of the gated product (in ``up``). The weights that read such a channel are as many times
            smaller there, so that it counts as much as any other: that is how they lie in trained models
            (arXiv 2211.10438, section 3).
        sharpness: By how much queries are larger than those of weights drawn with unit gain: the more, the fewer keys
            attention looks at.
        branch: By how much attention and feed-forward add more to the stream than such weights do: what branches add
            outgrows the embedding in trained models.
    """

    mask: float
    layers: int
    outliers: float = 1.0
    sharpness: float = 1.0
    branch: float = 1.0


MASKED = Block(mask=-1e4, layers=1)
"""Nothing is unusual but the mask, which is as exporters write it."""

OUTLIERS = Block(mask=-30.0, layers=2, outliers=30.0, sharpness=4.0, branch=3.0)
"""Channels 30 times larger than others, sharp attention, branches that outgrow the embedding."""


def write_block(path: Path, block: Block, *, seed: int = 0) -> Path:
    """Write a block as ONNX, its weights drawn with a seed."""
    pen = _Pen(np.random.default_rng(seed), block)
    causal = np.triu(np.full((LENGTH, LENGTH), block.mask, np.float32), 1)
    pen.constants["mask"] = causal[None, None]
    value = "x"
    for layer in range(block.layers):
        value = pen.add(value, pen.attention(f"layers.{layer}.attn", pen.norm(f"layers.{layer}.norm1", value)))
        value = pen.add(value, pen.feed_forward(f"layers.{layer}.mlp", pen.norm(f"layers.{layer}.norm2", value)))
    pen.nodes[-1].output[0] = "y"
    shape = [1, LENGTH, WIDTH]
    graph = helper.make_graph(
        pen.nodes,
        "block",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(array, name) for name, array in pen.constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def draw_samples(n: int, *, seed: int = 1) -> Array:
    """Inputs for a block, ``[n, 1, 32, 256]``, standard normal."""
    return np.random.default_rng(seed).standard_normal((n, 1, LENGTH, WIDTH)).astype(np.float32)


class _Pen:
    """Writes the nodes of a block."""

    def __init__(self, rng: np.random.Generator, block: Block) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self._rng = rng
        self._block = block

    def attention(self, name: str, value: str) -> str:
        q, k, v = (self._heads(f"{name}.{one}", value) for one in "qkv")
        keys = self._op("Transpose", [k], f"{name}.k_t", perm=[0, 1, 3, 2])
        scores = self._op("MatMul", [q, keys], f"{name}.qk")
        scores = self._op("Mul", [scores, self._constant(f"{name}.scale", np.float32(_HEAD**-0.5))], f"{name}.scaled")
        scores = self._op("Add", [scores, "mask"], f"{name}.masked")
        weights = self._op("Softmax", [scores], f"{name}.weights", axis=-1)
        mixed = self._op("MatMul", [weights, v], f"{name}.mixed")
        mixed = self._op("Transpose", [mixed], f"{name}.mixed_t", perm=[0, 2, 1, 3])
        mixed = self._op("Reshape", [mixed, self._shape(1, LENGTH, WIDTH)], f"{name}.joined")
        return self._linear(
            f"{name}.o", mixed, self._weight(WIDTH, WIDTH, reads=f"{name}.v") * np.float32(self._block.branch)
        )

    def feed_forward(self, name: str, value: str) -> str:
        norm = name.replace("mlp", "norm2")
        gate = self._linear(f"{name}.gate", value, self._weight(WIDTH, _INNER, reads=norm))
        up = self._linear(f"{name}.up", value, self._weight(WIDTH, _INNER, reads=norm, makes=f"{name}.up"))
        act = self._op("Mul", [gate, self._op("Sigmoid", [gate], f"{name}.sigmoid")], f"{name}.act")
        product = self._op("Mul", [act, up], f"{name}.product")
        return self._linear(
            f"{name}.down", product, self._weight(_INNER, WIDTH, reads=f"{name}.up") * np.float32(self._block.branch)
        )

    def norm(self, name: str, value: str) -> str:
        weight = (1 + 0.1 * self._rng.standard_normal(WIDTH)).astype(np.float32) * self._large(name, WIDTH)
        square = self._op("Mul", [value, value], f"{name}.square")
        mean = self._op("ReduceMean", [square], f"{name}.mean", axes=[-1], keepdims=1)
        root = self._op("Sqrt", [self._op("Add", [mean, self._constant("epsilon", np.float32(_EPSILON))],
                                          f"{name}.sum")], f"{name}.root")  # fmt: skip
        quotient = self._op("Div", [value, root], f"{name}.quotient")
        return self._op("Mul", [quotient, self._constant(f"{name}.weight", weight)], name)

    def add(self, one: str, other: str) -> str:
        return self._op("Add", [one, other], f"{other}.sum")

    def _heads(self, name: str, value: str) -> str:
        norm = name.replace("attn", "norm1").rsplit(".", 1)[0]
        weight = self._weight(WIDTH, WIDTH, reads=norm, makes=None if name.endswith(".q") else name)
        if name.endswith(".q"):
            weight = weight / self._large(name.replace(".q", ".k"), WIDTH) * np.float32(self._block.sharpness)
        flat = self._linear(name, value, weight)
        split = self._op("Reshape", [flat, self._shape(1, LENGTH, _HEADS, _HEAD)], f"{name}.split")
        return self._op("Transpose", [split], f"{name}.heads", perm=[0, 2, 1, 3])

    def _linear(self, name: str, value: str, weight: Array) -> str:
        return self._op("MatMul", [value, self._constant(f"{name}.weight", weight)], name)

    def _weight(self, rows: int, columns: int, *, reads: str, makes: str | None = None) -> Array:
        """``[rows, columns]`` that read the channels of one value and make those of another."""
        drawn = self._rng.standard_normal((rows, columns)).astype(np.float32) / np.float32(np.sqrt(rows))
        drawn /= self._large(reads, rows)[:, None]
        return drawn * self._large(makes, columns) if makes is not None else drawn

    def _large(self, name: str, channels: int) -> Array:
        """The factor of each channel of a value: the same whenever it is asked for."""
        factors = np.ones(channels, np.float32)
        if self._block.outliers != 1:
            rng = np.random.default_rng([len(name), *name.encode()])
            factors[rng.choice(channels, channels // 80 + (channels < 400), replace=False)] = self._block.outliers
        return factors

    def _shape(self, *sizes: int) -> str:
        return self._constant("shape_" + "_".join(map(str, sizes)), np.asarray(sizes, np.int64))

    def _constant(self, name: str, array: npt.NDArray[np.generic]) -> str:
        self.constants[name] = np.asarray(array)  # type: ignore[assignment]
        return name

    def _op(self, op_type: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=output, **attributes))
        return output
