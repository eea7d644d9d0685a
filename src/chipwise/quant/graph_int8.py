"""int8 for convolutional ONNX graphs on a CPU, by onnxruntime.quantization."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx_ir as ir
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from chipwise.errors import InputError, RewriteError
from chipwise.model.scheme import TensorScheme
from chipwise.quant.int_weights import IntGrid, output_axis
from chipwise.rewrite.pass_ import Feed
from chipwise.rewrite.runner import brief

# What a convolutional net keeps in integers from one end to the other.
_OPERATORS = (
    "Add", "AveragePool", "Clip", "Concat", "Conv", "ConvTranspose", "Flatten", "Gemm", "GlobalAveragePool",
    "LeakyRelu", "MatMul", "MaxPool", "Mul", "Pad", "Relu", "Reshape", "Resize", "Slice", "Split", "Squeeze",
    "Transpose", "Unsqueeze",
)  # fmt: skip


def quantize_graph_int8(
    source: Path,
    out: Path,
    feeds: Collection[Feed],
    grid: IntGrid,
    *,
    signed: bool,
    per_channel_ops: Collection[str] | None = None,
) -> None:
    """Quantize a graph file with ranges from samples, which are read one at a time.

    ONNX Runtime's MinMax calibration keeps two numbers a value and sample, so memory does not grow with the values.
    Its ``CalibMaxIntermediateOutputs`` must stay unset: in 1.32 it drops what was collected.

    Args:
        source: The graph in float32.
        out: Where the quantized graph is written.
        feeds: Real inputs.
        grid: How weights become integers.
        signed: Whether activations become int8; otherwise uint8.
        per_channel_ops: Operators whose weights may have a scale a channel; None for all.

    Raises:
        InputError: There are no samples.
        RewriteError: onnxruntime.quantization fails on the graph.
    """
    if not len(feeds):
        raise InputError("no calibration samples", remedy="give --samples with at least one")
    options: dict[str, Any] = {"MatMulConstBOnly": True}
    if grid.per_channel and per_channel_ops is not None:
        options["TensorQuantOverrides"] = _whole_tensors(ir.load(source), per_channel_ops)
    try:
        with _quiet():
            quantize_static(
                source,
                out,
                _Reader(feeds),
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=list(_OPERATORS),
                per_channel=grid.per_channel,
                reduce_range=grid.spare_bit,
                activation_type=QuantType.QInt8 if signed else QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                extra_options=options,
            )
    except Exception as e:  # the library raises what it likes, assertions too
        raise RewriteError(
            f"onnxruntime.quantization fails on the graph ({type(e).__name__}: {brief(e)})", where=str(source),
            remedy="build it with --recipe fp32, or report the model",
        ) from e  # fmt: skip


def stored_schemes(model: ir.Model) -> dict[str, TensorScheme]:
    """The scheme of each integer weight of a quantized graph, by its float name; ``NAME_quantized`` is stored."""
    found: dict[str, TensorScheme] = {}
    for node in model.graph:
        if node.op_type != "DequantizeLinear" or node.inputs[0] is None or node.inputs[1] is None:
            continue
        packed, scale = node.inputs[0], node.inputs[1]
        name = str(packed.name)
        if not packed.is_initializer() or packed.dtype != ir.DataType.INT8 or not name.endswith("_quantized"):
            continue
        per_channel = scale.const_value is not None and scale.const_value.size > 1
        axis = node.attributes.get_int("axis", 1) if per_channel else None
        found[name.removesuffix("_quantized")] = TensorScheme(8, "int8", None, axis, True, "float32")
    return found


class _Reader(CalibrationDataReader):  # type: ignore[misc]  # the package is not typed
    """Hands samples out one after the other."""

    def __init__(self, feeds: Collection[Feed]) -> None:
        self._left = iter(feeds)

    def get_next(self) -> Mapping[str, npt.NDArray[Any]] | None:
        """The next sample, None after the last."""
        feed = next(self._left, None)
        return None if feed is None else dict(feed)


def _whole_tensors(model: ir.Model, per_channel_ops: Collection[str]) -> dict[str, list[dict[str, Any]]]:
    """Overrides that give one scale to the weights of operators that take no more."""
    return {
        str(node.inputs[1].name): [{"quant_type": QuantType.QInt8, "symmetric": True}]
        for node in model.graph
        if output_axis(node) is not None and node.op_type not in per_channel_ops and node.inputs[1] is not None
    }


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what the library says through the root logger off the terminal; its errors come as exceptions."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        root.setLevel(level)
