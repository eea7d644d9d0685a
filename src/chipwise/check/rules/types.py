"""Rules about data types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx_ir as ir

from chipwise.check.check_input import CheckInput, label
from chipwise.check.rule import Hit, rule

_ARITHMETIC = frozenset(
    {"Add", "Sub", "Mul", "Div", "Mod", "Pow", "ReduceSum", "ReduceMax", "CumSum", "MatMul", "Range"}
)
_COMPLEX = frozenset({ir.DataType.COMPLEX64, ir.DataType.COMPLEX128})


@rule
def input_types(given: CheckInput) -> Iterator[Hit]:
    """An input has a type that the target's toolchain refuses.

    Why: The toolchain ends without a result (rknn-toolkit2 aborts the process on uint8: "Not Support Dtype: 2").

    Limit: `refused_input_dtypes` of the target, from its toolchain.

    Remedy: The build makes the input float32; feed it the same numbers.
    """
    refused = given.limits.refused_input_dtypes
    if given.graph is None or refused is None:
        return
    for value in given.graph.graph.inputs:
        if value.dtype is not None and value.dtype.name.lower() in refused.value:
            yield Hit("warning", str(value.name), value.dtype.name.lower(), f"not {', '.join(refused.value)}")


@rule
def int64_arithmetic(given: CheckInput) -> Iterator[Hit]:
    """The graph computes with 64-bit integers while it runs.

    Why: No accelerator here has 64-bit integers: such nodes run on the CPU, and the data crosses over and back.

    Limit: The types of the target's compute units.

    Remedy: Compute masks and positions outside the graph, or in float32. Give an input that never changes its value
        with --fix NAME=VALUE.
    """
    if not given.has_accelerator:
        return
    found: Counter[str] = Counter()
    for node in given.nodes:
        if node.op_type in _ARITHMETIC and node.outputs and node.outputs[0].dtype == ir.DataType.INT64:
            found[label(node)] += 1
    if found:
        where = ", ".join(list(found)[:4]) + (" ..." if len(found) > 4 else "")
        yield Hit("warning", where, f"{found.total()} nodes in int64", "0 nodes")


@rule
def stored_floats(given: CheckInput) -> Iterator[Hit]:
    """Weights are stored in another floating-point type than toolchains and quantizers start from.

    Why: A float16 initializer in a float32 graph, or a graph in float16, is refused or silently cast node by node.

    Limit: float32, which every toolchain takes.

    Remedy: The build widens them to float32; nothing to do.
    """
    if given.graph is None:
        return
    odd = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE)
    counts: Counter[str] = Counter()
    for value in given.graph.graph.initializers.values():
        if value.dtype in odd and value.dtype is not None:
            counts[value.dtype.name.lower()] += 1
    for dtype, count in counts.items():
        severity = "warning" if dtype == "double" and given.has_accelerator else "info"
        yield Hit(severity, "initializers", f"{count} in {dtype}", "float32")  # type: ignore[arg-type]


@rule
def complex_numbers(given: CheckInput) -> Iterator[Hit]:
    """The graph computes with complex numbers.

    Why: No runtime here has kernels for them; rotary embeddings written with complex numbers bring them in.

    Limit: Real types.

    Remedy: Export the model with rotary embedding in real numbers (cos and sin).
    """
    for node in given.nodes:
        for value in node.outputs:
            if value.dtype in _COMPLEX:
                yield Hit("error", label(node), str(value.dtype and value.dtype.name.lower()), "a real type")
