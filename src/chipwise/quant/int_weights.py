"""Integer weights: MatMul, Gemm and Conv over int8 (or int4) weights with a DequantizeLinear in front.

Weights are read and quantized one at a time when the model is saved, so memory stays at one weight.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.check.weightless import drop_unused_initializers
from chipwise.errors import RewriteError
from chipwise.model.decoder import names
from chipwise.model.scheme import TensorScheme

_MICROSOFT = "com.microsoft"
_HEAD = "lm_head"
_PRODUCTS = ("MatMul", "Gemm", "Conv", "ConvTranspose")
_DTYPES = {8: ir.DataType.INT8, 4: ir.DataType.INT4}
# A scale below it makes float32 products subnormal.
_SMALLEST_SCALE = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class IntGrid:
    """How weights become integers.

    Attributes:
        bits: 8 or 4.
        per_channel: One scale an output channel; otherwise one for the tensor.
        spare_bit: Whether to leave one bit unused. Without VNNI, x86 adds two products of 8 bits in 16, which saturates
            (ONNX Runtime's documentation calls it reduce_range).
    """

    bits: int = 8
    per_channel: bool = True
    spare_bit: bool = False

    @property
    def top(self) -> int:
        """The largest magnitude of an integer; symmetric, so that the zero_point is zero."""
        return int((1 << (self.bits - 1 - self.spare_bit)) - 1)

    def scheme(self, axis: int) -> TensorScheme:
        """The scheme of a weight whose output channels lie along ``axis``."""
        own = axis if self.per_channel else None
        return TensorScheme(self.bits, "int8" if self.bits == 8 else "int4", None, own, True, "float32")


def quantize_int_weights(
    model: ir.Model, grid: IntGrid, *, per_channel_ops: Collection[str] | None = None
) -> dict[str, TensorScheme]:
    """Give every MatMul, Gemm and convolution with constant weights integers instead, in place.

    A weight keeps its name in the result; what is stored is named ``NAME.packed`` and ``NAME.scales``.

    Args:
        model: The graph.
        grid: How weights become integers.
        per_channel_ops: Operators whose weights may have a scale a channel; None for all.

    Returns:
        The scheme of each weight by its name.
    """
    if grid.bits == 4:
        # The standard operator takes 4 bits from opset 21 on, the runtime's own in all.
        model.graph.opset_imports[_MICROSOFT] = 1
    schemes: dict[str, TensorScheme] = {}
    dense: dict[str, ir.Value] = {}
    for node in list(model.graph):
        axis = output_axis(node)
        weight = node.inputs[1] if axis is not None else None
        if axis is None or weight is None or weight.name is None:
            continue
        if weight.name not in dense:
            name = _stored_name(model.graph, node, weight, grid)
            whole = per_channel_ops is not None and node.op_type not in per_channel_ops
            own = replace(grid, per_channel=False) if whole else grid
            dense[weight.name] = _dequantized(model.graph, node, weight, name, axis, own)
            schemes[name] = own.scheme(axis)
        node.replace_input_with(1, dense[weight.name])
    drop_unused_initializers(model)
    return schemes


def output_axis(node: ir.Node) -> int | None:
    """The axis of a constant weight along which its output channels lie; None if the node has none."""
    if node.domain or node.op_type not in _PRODUCTS or len(node.inputs) < 2:
        return None
    weight = node.inputs[1]
    if weight is None or not weight.is_initializer() or weight.is_graph_input() or weight.const_value is None:
        return None
    rank = len(weight.const_value.shape)
    if weight.const_value.dtype != ir.DataType.FLOAT or rank < 2:
        return None
    if node.op_type in ("Conv", "ConvTranspose"):
        return 0 if node.op_type == "Conv" else 1
    if node.op_type == "Gemm":
        return 0 if node.attributes.get_int("transB", 0) else 1
    return rank - 1


def integers(
    weight: npt.NDArray[np.float32], axis: int, grid: IntGrid
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """The integers of a weight and their scales, ``[channels]`` or a scalar; value = integer * scale.

    A channel of zeros, or of numbers too small for a scale, becomes zeros.
    """
    axes = tuple(i for i in range(weight.ndim) if i != axis) if grid.per_channel else None
    largest = np.maximum(np.max(weight, axis=axes, initial=0.0), -np.min(weight, axis=axes, initial=0.0))
    scale = np.asarray(largest / grid.top, np.float32)
    scale = np.where(scale < _SMALLEST_SCALE, np.float32(1), scale).astype(np.float32)
    shape = [-1 if i == axis else 1 for i in range(weight.ndim)]
    steps = scale.reshape(shape) if grid.per_channel else scale
    q = np.clip(np.rint(weight / steps), -grid.top, grid.top).astype(np.int8)
    return q, scale


def stored_integers(
    graph: ir.Graph, weight: ir.Value, name: str, axis: int, grid: IntGrid
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """A weight's integers, scales and zero_points as initializers; the same ones when they are asked for again.

    Raises:
        RewriteError: The weight is no initializer.
    """
    known = graph.initializers.get(f"{name}.packed")
    if known is not None:
        return known, graph.initializers[f"{name}.scales"], graph.initializers[f"{name}.zero_points"]
    lazy = _LazyIntegers(name, weight.const_value, axis, grid)
    packed, scales, zeros = (_register(graph, tensor) for tensor in lazy.tensors())
    return packed, scales, zeros


def _stored_name(graph: ir.Graph, node: ir.Node, weight: ir.Value, grid: IntGrid) -> str:
    """The weight's name, or the output layer's own where it shares a weight but not how that is stored."""
    table = graph.initializers.get(f"{weight.name}.packed")
    if node.name != _HEAD or (table is not None and table.dtype == _DTYPES[grid.bits]):
        return str(weight.name)
    return names.LM_HEAD


def _dequantized(graph: ir.Graph, user: ir.Node, weight: ir.Value, name: str, axis: int, grid: IntGrid) -> ir.Value:
    attributes = {"axis": axis} if grid.per_channel else {}
    inputs = stored_integers(graph, weight, name, axis, grid)
    node = ir.node("DequantizeLinear", inputs, attributes, domain=_MICROSOFT if grid.bits == 4 else "")
    node.outputs[0].name = f"{name}.dense"
    node.outputs[0].type, node.outputs[0].shape = ir.TensorType(ir.DataType.FLOAT), weight.shape
    graph.insert_before(user, node)
    return node.outputs[0]


class _LazyIntegers:
    """A weight's integers and scales, computed when they are saved."""

    def __init__(self, name: str, tensor: ir.TensorProtocol | None, axis: int, grid: IntGrid) -> None:
        if tensor is None:
            raise RewriteError("a weight is no initializer", where=name)
        self._name, self._tensor, self._axis, self._grid = name, tensor, axis, grid
        # Scales are small and asked for after the integers: they stay until then.
        self._held: npt.NDArray[np.float32] | None = None

    def tensors(self) -> list[ir.TensorProtocol]:
        """The integers, the scales and the zero_points."""
        shape = self._tensor.shape.numpy()
        channels = (shape[self._axis],) if self._grid.per_channel else ()
        dtype = _DTYPES[self._grid.bits]
        return [
            ir.LazyTensor(self._packed, dtype, ir.Shape(shape), name=f"{self._name}.packed"),
            ir.LazyTensor(self._scales, ir.DataType.FLOAT, ir.Shape(channels), name=f"{self._name}.scales"),
            self._stored(np.zeros(channels, np.int8), "zero_points"),
        ]

    def _packed(self) -> ir.TensorProtocol:
        q, self._held = integers(self._tensor.numpy(), self._axis, self._grid)
        return self._stored(q, "packed")

    def _scales(self) -> ir.TensorProtocol:
        scales = self._held
        if scales is None:
            _, scales = integers(self._tensor.numpy(), self._axis, self._grid)
        return ir.Tensor(scales, name=f"{self._name}.scales")

    def _stored(self, values: npt.NDArray[np.int8], part: str) -> ir.TensorProtocol:
        dtype = _DTYPES[self._grid.bits]
        return ir.Tensor(values.astype(dtype.numpy()), dtype=dtype, name=f"{self._name}.{part}")


def _register(graph: ir.Graph, tensor: ir.TensorProtocol) -> ir.Value:
    value = ir.Value(name=tensor.name, shape=ir.Shape(tensor.shape.numpy()), type=ir.TensorType(tensor.dtype),
                     const_value=tensor)  # fmt: skip
    graph.register_initializer(value)
    return value
