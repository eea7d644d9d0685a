"""Integer weights: MatMul, Gemm and Conv over int8 (or int4) weights with a DequantizeLinear in front.

Weights are read and quantized one at a time when the model is saved, so memory stays at one weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.errors import RewriteError
from chipwise.model.scheme import TensorScheme

_MICROSOFT = "com.microsoft"
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
        dtype = "int8" if self.bits == 8 else "int4"
        return TensorScheme(self.bits, dtype, None, axis if self.per_channel else None, True, "float32")


def quantize_int_weights(model: ir.Model, grid: IntGrid) -> dict[str, TensorScheme]:
    """Give every MatMul, Gemm and Conv with constant weights integers instead, in place.

    A weight keeps its name in the result; what is stored is named ``NAME.packed`` and ``NAME.scales``.

    Returns:
        The scheme of each weight by its name.
    """
    if grid.bits == 4:
        # The standard operator takes 4 bits from opset 21 on, the runtime's own in all.
        model.graph.opset_imports[_MICROSOFT] = 1
    schemes: dict[str, TensorScheme] = {}
    dense: dict[tuple[str, int], ir.Value] = {}
    for node in list(model.graph):
        axis = output_axis(node)
        weight = node.inputs[1] if axis is not None else None
        if axis is None or weight is None or weight.name is None or weight.const_value is None:
            continue
        key = (weight.name, axis)
        if key not in dense:
            dense[key] = _dequantized(model.graph, node, weight, axis, grid)
            schemes[weight.name] = grid.scheme(axis)
        node.replace_input_with(1, dense[key])
    return schemes


def output_axis(node: ir.Node) -> int | None:
    """The axis of a constant weight along which its output channels lie; None if the node has none."""
    if node.domain or node.op_type not in ("MatMul", "Gemm", "Conv") or len(node.inputs) < 2:
        return None
    weight = node.inputs[1]
    if weight is None or not weight.is_initializer() or weight.is_graph_input() or weight.const_value is None:
        return None
    rank = len(weight.const_value.shape)
    if weight.const_value.dtype != ir.DataType.FLOAT or rank < 2:
        return None
    if node.op_type == "Conv":
        return 0
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


def _dequantized(graph: ir.Graph, user: ir.Node, weight: ir.Value, axis: int, grid: IntGrid) -> ir.Value:
    lazy = _LazyIntegers(str(weight.name), weight.const_value, axis, grid)
    inputs = [_register(graph, tensor) for tensor in lazy.tensors()]
    attributes = {"axis": axis} if grid.per_channel else {}
    node = ir.node("DequantizeLinear", inputs, attributes, domain=_MICROSOFT if grid.bits == 4 else "")
    node.outputs[0].name = f"{weight.name}.dense"
    node.outputs[0].type, node.outputs[0].shape = ir.TensorType(ir.DataType.FLOAT), weight.shape
    graph.insert_before(user, node)
    return node.outputs[0]


class _LazyIntegers:
    """A weight's integers and scales, computed when they are saved, one after the other and once."""

    def __init__(self, name: str, tensor: ir.TensorProtocol | None, axis: int, grid: IntGrid) -> None:
        if tensor is None:
            raise RewriteError("a weight is no initializer", where=name)
        self._name, self._tensor, self._axis, self._grid = name, tensor, axis, grid
        self._last: tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]] | None = None

    def tensors(self) -> list[ir.TensorProtocol]:
        """The integers, the scales and the zero_points."""
        shape = self._tensor.shape.numpy()
        channels = (shape[self._axis],) if self._grid.per_channel else ()
        dtype = _DTYPES[self._grid.bits]
        zeros = ir.Tensor(_as(np.zeros(channels, np.int8), dtype), dtype=dtype, name=f"{self._name}.zero_points")
        return [
            ir.LazyTensor(self._packed, dtype, ir.Shape(shape), name=f"{self._name}.packed"),
            ir.LazyTensor(self._scales, ir.DataType.FLOAT, ir.Shape(channels), name=f"{self._name}.scales"),
            zeros,
        ]

    def _compute(self) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
        return integers(self._tensor.numpy(), self._axis, self._grid)

    def _packed(self) -> ir.TensorProtocol:
        q, scale = self._last = self._compute()
        dtype = _DTYPES[self._grid.bits]
        # The scales are small and asked for next; the integers need not stay.
        self._last = (np.empty(0, np.int8), scale)
        return ir.Tensor(_as(q, dtype), dtype=dtype, name=f"{self._name}.packed")

    def _scales(self) -> ir.TensorProtocol:
        _, scale = self._last or self._compute()
        return ir.Tensor(scale, name=f"{self._name}.scales")


def _as(values: npt.NDArray[np.int8], dtype: ir.DataType) -> npt.NDArray[np.generic]:
    return values.astype(dtype.numpy())


def _register(graph: ir.Graph, tensor: ir.TensorProtocol) -> ir.Value:
    value = ir.Value(name=tensor.name, shape=ir.Shape(tensor.shape.numpy()), type=ir.TensorType(tensor.dtype),
                     const_value=tensor)  # fmt: skip
    graph.register_initializer(value)
    return value
