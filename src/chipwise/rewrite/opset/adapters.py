"""Adapters for lowering that the standard converter lacks, one function an operator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from chipwise.check.constants import constant_array
from chipwise.check.symbolic import static_shape
from chipwise.rewrite.edit import Patch, attribute_int

Adapter = Callable[[ir.Node, int], bool]
"""Rewrites a node in place for an opset; False if it cannot."""


def adapt(node: ir.Node, target: int) -> bool:
    """Rewrite a node so that the target opset takes it; False if this file knows no way."""
    adapter = _ADAPTERS.get(node.op_type)
    return adapter is not None and adapter(node, target)


def _split(node: ir.Node, target: int) -> bool:
    """Opset 18 named the number of parts; before, parts were equal or listed."""
    if "num_outputs" not in node.attributes:
        return False
    value = node.inputs[0]
    shape = static_shape(value)
    if value is None or shape is None:
        return False
    n = node.attributes["num_outputs"].as_int()
    size = shape[attribute_int(node, "axis", 0)]
    del node.attributes["num_outputs"]
    chunk = -(-size // n)
    parts = [min(chunk, size - i * chunk) for i in range(n)]
    if len(set(parts)) == 1:
        return True
    if target >= 13:
        node.resize_inputs(2)
        node.replace_input_with(1, Patch(node).constant(np.asarray(parts, dtype=np.int64)))
    else:
        node.attributes["split"] = ir.AttrInt64s("split", parts)
    return True


def _reshape(node: ir.Node, target: int) -> bool:
    """``allowzero`` (14) only matters where a size is 0."""
    shape = constant_array(node.inputs[1])
    if attribute_int(node, "allowzero", 0) and (shape is None or (shape == 0).any()):
        return False
    node.attributes.pop("allowzero", None)
    return True


def _resize(node: ir.Node, target: int) -> bool:
    """Attributes of 18 and 19 go where they hold their defaults; opset 11 wants roi and scales to be there."""
    for name, default in (("antialias", 0), ("extrapolation_value", None), ("keep_aspect_ratio_policy", "stretch")):
        attribute = node.attributes.get(name)
        if attribute is None or default is None:
            continue
        if attribute.value != default:
            return False
        del node.attributes[name]
    if "axes" in node.attributes or target < 11:
        return False
    if target < 13:
        empty = [index for index in (1, 2) if index >= len(node.inputs) or node.inputs[index] is None]
        node.resize_inputs(max(3, len(node.inputs)))
        for index in empty:
            node.replace_input_with(index, Patch(node).constant(np.zeros(0, dtype=np.float32)))
    return True


def _grid_sample(node: ir.Node, target: int) -> bool:
    """Opset 20 renamed the modes."""
    mode = node.attributes.get("mode")
    if mode is not None:
        name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode.as_string(), mode.as_string())
        node.attributes["mode"] = ir.AttrString("mode", name)
    return target >= 16


def _softmax(node: ir.Node, target: int) -> bool:
    """Before opset 13 all axes from ``axis`` on were taken together, which is the same for the last one."""
    value = node.inputs[0]
    if value is None or value.shape is None:
        return False
    last = len(value.shape) - 1
    if attribute_int(node, "axis", -1) not in (-1, last):
        return False
    node.attributes["axis"] = ir.AttrInt64("axis", last)
    return True


def _batch_normalization(node: ir.Node, target: int) -> bool:
    """``training_mode`` (14) is for training."""
    if attribute_int(node, "training_mode", 0) or target < 9:
        return False
    node.attributes.pop("training_mode", None)
    return True


def _cast_like(node: ir.Node, target: int) -> bool:
    """A type that is known is a Cast."""
    like = node.inputs[1]
    if like is None or like.dtype is None:
        return False
    node.op_type = "Cast"
    node.resize_inputs(1)
    node.attributes.pop("saturate", None)
    node.attributes["to"] = ir.AttrInt64("to", int(like.dtype))
    return True


def _cast(node: ir.Node, target: int) -> bool:
    """``saturate`` (19) and ``round_mode`` (24) concern 8-bit floats only."""
    node.attributes.pop("saturate", None)
    node.attributes.pop("round_mode", None)
    return True


def _reduce(node: ir.Node, target: int) -> bool:
    """Axes became an input at 18 (ReduceSum at 13); an empty list is all of them."""
    if len(node.inputs) < 2 or node.inputs[1] is None:
        axes: list[int] | None = None
    else:
        array = constant_array(node.inputs[1])
        if array is None:
            return False
        axes = [int(a) for a in array.reshape(-1)]
    if not axes and attribute_int(node, "noop_with_empty_axes", 0):
        return False
    node.attributes.pop("noop_with_empty_axes", None)
    node.resize_inputs(1)
    if axes:
        node.attributes["axes"] = ir.AttrInt64s("axes", axes)
    return True


_REDUCTIONS = (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
)

_ADAPTERS: dict[str, Adapter] = {
    "Split": _split,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "BatchNormalization": _batch_normalization,
    "Reshape": _reshape,
    "Resize": _resize,
    "GridSample": _grid_sample,
    "CastLike": _cast_like,
    "Cast": _cast,
    **dict.fromkeys(_REDUCTIONS, _reduce),
}
