"""Rules about the values of weights and constants."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from chipwise.check.check_input import CheckInput, label
from chipwise.check.constants import constant_tensor
from chipwise.check.rule import Hit, rule
from chipwise.check.rules.external_data import is_there

_LARGEST = 65504.0
# Half of the smallest subnormal number: what lies below becomes 0.
_SMALLEST = 2.0**-25
# Their constants are factors and weights; an addend that is far too low is a mask.
_FACTORS = frozenset({"Conv", "ConvTranspose", "Div", "GRU", "Gemm", "LSTM", "MatMul", "Mul", "RNN"})
_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.BFLOAT16, ir.DataType.FLOAT16})


@rule
def weights_not_finite(given: CheckInput) -> Iterator[Hit]:
    """A weight holds values that are no numbers.

    Why: All that is computed from it is NaN or infinite, on every chip and in every precision.

    Limit: Finite numbers.

    Remedy: Export the model again from weights that are whole; training may have diverged.
    """
    for node, name, low, high in _factors(given):
        if np.isnan(low) or np.isinf(low) or np.isinf(high):
            yield Hit("error", name, "NaN" if np.isnan(low) else "infinity", "finite numbers", f"read by {label(node)}")


@rule
def float16_range(given: CheckInput) -> Iterator[Hit]:
    """A weight or factor lies outside the range of float16.

    Why: Accelerators compute in float16 where they do not compute in integers: what is above 65504 becomes infinite,
    what is below 3e-8 becomes 0 (rknn-toolkit2: "All outputs of model are constants").

    Limit: float16: 65504 at most, 2**-25 at least.

    Remedy: Merge it with the factor that undoes it, or scale the weights and the layer behind them.
    """
    if not given.has_accelerator:
        return
    for _, name, low, high in _factors(given):
        largest = max(abs(low), abs(high))
        if _LARGEST < largest < np.inf:
            yield Hit("warning", name, f"a magnitude of {largest:g}", f"{_LARGEST:g}")
        elif 0 < largest < _SMALLEST:
            yield Hit("warning", name, f"no magnitude above {largest:g}", f"{_SMALLEST:.0e}")


def _factors(given: CheckInput) -> Iterator[tuple[ir.Node, str, float, float]]:
    """Constants that something is multiplied with or divided by: a reader, the name, and the ends of the values."""
    seen: set[ir.Value] = set()
    for node in given.nodes:
        if node.op_type not in _FACTORS or node.domain not in ("", "ai.onnx"):
            continue
        for value in node.inputs:
            tensor = constant_tensor(value)
            if value is None or tensor is None or value in seen or tensor.dtype not in _FLOATS or not tensor.size:
                continue
            seen.add(value)
            if not is_there(tensor):  # which is said by a rule of its own
                continue
            low, high = _ends(tensor)
            yield node, str(value.name), low, high


def _ends(tensor: ir.TensorProtocol) -> tuple[float, float]:
    """Smallest and largest value; NaN if there is one."""
    array = tensor.numpy()
    return float(np.min(array)), float(np.max(array))
