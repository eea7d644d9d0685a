"""Constants of a graph: the values of initializers and Constant nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir


def constant_tensor(value: ir.Value | None) -> ir.TensorProtocol | None:
    """The tensor behind a value that never changes; None for anything computed or fed.

    An initializer that is also a graph input is a default the user may override, so it is no constant.
    """
    if value is None or value.is_graph_input():
        return None
    if value.const_value is not None:
        return value.const_value
    node = value.producer()
    if node is None or node.op_type != "Constant" or node.domain:
        return None
    return _constant_attribute(node)


def _constant_attribute(node: ir.Node) -> ir.TensorProtocol | None:
    for name, attribute in node.attributes.items():
        if attribute.is_ref():
            return None
        if name == "value":
            return attribute.as_tensor()
        if name in ("value_int", "value_ints"):
            return ir.tensor(np.asarray(attribute.value, dtype=np.int64))
        if name in ("value_float", "value_floats"):
            return ir.tensor(np.asarray(attribute.value, dtype=np.float32))
    return None


def constant_array(value: ir.Value | None, *, max_size: int = 1 << 24) -> npt.NDArray[Any] | None:
    """The array behind a constant of at most ``max_size`` values, else None."""
    tensor = constant_tensor(value)
    if tensor is None or tensor.size > max_size or tensor.dtype == ir.DataType.STRING:
        return None
    return np.asarray(tensor.numpy())


def constant_scalar(value: ir.Value | None) -> float | None:
    """The number behind a constant of one value, else None."""
    array = constant_array(value, max_size=1)
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None
