"""Static int8 for CPUs: integer products between float operators, as ONNX Runtime runs them natively.

Every MatMul and Gemm with a constant weight reads its input through one calibrated 8-bit scale, and its weight as int8
with a scale a channel. Attention, norms and the residual stream stay in floating point: a CPU gains nothing from 8 bits
there. When it loads the graph, ONNX Runtime makes MatMulIntegerToFloat and QGemm of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from chipwise.check.constants import constant_tensor
from chipwise.errors import RewriteError
from chipwise.model.scheme import TensorScheme
from chipwise.quant.affine import affine
from chipwise.quant.calibration import ValueRange
from chipwise.quant.hessian import linear_inputs
from chipwise.quant.int_weights import IntGrid, quantize_int_weights, stored_integers
from chipwise.quant.pairs import add_initializer, insert_pair
from chipwise.target.target import Target

_FAST_X86 = frozenset({"avx512_vnni", "avx_vnni", "amx_int8"})
_X86 = frozenset({"avx2", "fma", "f16c", "avx512f"})
# Smaller tables are not worth the operators it takes to read them as integers.
_TABLE_VALUES = 1 << 16


def quantized_values(model: ir.Model) -> list[str]:
    """Names of the values that must be calibrated: the inputs of the products."""
    return [one.value for one in linear_inputs(model)]


def quantize_static_int8(
    model: ir.Model, ranges: Mapping[str, ValueRange], grid: IntGrid, *, signed: bool
) -> dict[str, TensorScheme]:
    """Quantize products and look-up tables, in place.

    Args:
        model: A fused decoder, or any graph.
        ranges: The range of each of ``quantized_values``.
        grid: How weights become integers.
        signed: Whether activations become int8, which Arm computes fastest; otherwise uint8, which x86 does.

    Returns:
        The scheme of each weight by its name.

    Raises:
        RewriteError: An input has no range.
    """
    graph = model.graph
    values = {value.name: value for value in graph.inputs}
    values |= {value.name: value for node in graph for value in node.outputs}
    for name in quantized_values(model):
        if name not in ranges:
            raise RewriteError("it was not calibrated", where=f"value {name}")
        found = ranges[name]
        products = [node for node, index in values[name].uses() if index == 0 and node.op_type in ("MatMul", "Gemm")]
        insert_pair(graph, values[name], affine(found.low, found.high, signed=signed), users=products)
    return quantize_channels(model, grid)


def quantize_channels(model: ir.Model, grid: IntGrid) -> dict[str, TensorScheme]:
    """Give products and look-up tables integer weights and leave activations as they are, in place."""
    # A row of a table is read as bytes; 4 bits would need unpacking.
    schemes = _quantize_tables(model.graph, replace(grid, bits=8))
    return schemes | quantize_int_weights(model, grid)


def cpu_grid(target: Target, *, per_channel: bool) -> tuple[IntGrid, bool]:
    """The weights' grid for a CPU, and whether its activations are signed.

    x86 multiplies unsigned by signed bytes; without VNNI it sums two such products in 16 bits, which saturate, so that
    one bit of the weights stays unused.
    """
    features = {feature for unit in target.units if unit.kind == "cpu" for feature in unit.features}
    is_x86 = bool(features & (_X86 | _FAST_X86))
    return IntGrid(8, per_channel, spare_bit=is_x86 and not features & _FAST_X86), not is_x86


def _quantize_tables(graph: ir.Graph, grid: IntGrid) -> dict[str, TensorScheme]:
    """Look rows of large tables up as integers and multiply each row by its scale."""
    schemes: dict[str, TensorScheme] = {}
    for node in [node for node in graph if _looks_up(node)]:
        table = node.inputs[0]
        if table is not None:
            _quantize_table(graph, node, table, grid)
            schemes[str(table.name)] = grid.scheme(0)
    return schemes


def _looks_up(node: ir.Node) -> bool:
    if node.op_type != "Gather" or node.domain or node.attributes.get_int("axis", 0) != 0:
        return False
    table, rows = node.inputs[0], constant_tensor(node.inputs[1])
    tensor = None if table is None or not table.is_initializer() else constant_tensor(table)
    if tensor is None or rows is not None:
        return False
    return tensor.dtype == ir.DataType.FLOAT and len(tensor.shape) == 2 and tensor.size >= _TABLE_VALUES


def _quantize_table(graph: ir.Graph, look_up: ir.Node, table: ir.Value, grid: IntGrid) -> None:
    ids, picked = look_up.inputs[1], look_up.outputs[0]
    packed, scales, _ = stored_integers(graph, table, str(table.name), 0, grid)
    rows = ir.node("Gather", [packed, ids], {"axis": 0}, name=look_up.name)
    dense = ir.node("Cast", rows.outputs, {"to": ir.DataType.FLOAT})
    nodes, scale = [rows, dense], scales
    if grid.per_channel:
        last = add_initializer(graph, f"{picked.name}.last_axis", np.array([-1], np.int64))
        steps = ir.node("Gather", [scales, ids], {"axis": 0})
        columns = ir.node("Unsqueeze", [steps.outputs[0], last])
        nodes += [steps, columns]
        scale = columns.outputs[0]
    product = ir.node("Mul", [dense.outputs[0], scale])
    graph.insert_after(look_up, [*nodes, product])
    product.outputs[0].type, product.outputs[0].shape = ir.TensorType(ir.DataType.FLOAT), picked.shape
    name = picked.name
    picked.replace_all_uses_with(product.outputs[0], replace_graph_outputs=True)
    graph.remove(look_up, safe=True)
    product.outputs[0].name = name
