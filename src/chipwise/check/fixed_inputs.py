"""Fixed inputs: graph inputs that get one value for good."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from chipwise.check.symbolic import is_size
from chipwise.errors import InputError

_OPTION = "--fix"


def fix_inputs(model: ir.Model, values: Mapping[str, float]) -> None:
    """Let inputs be constants, in place; what follows from them folds away.

    A graph that chooses between branches by a number it is given (the sample rate of a speech model) becomes the one
    branch, which a compiler for fixed graphs takes.

    Args:
        model: The graph.
        values: The value of each such input by name; all elements get it.

    Raises:
        InputError: There is no such input, its shape is open, or its type does not hold the value.
    """
    graph = model.graph
    inputs = {str(value.name): value for value in graph.inputs}
    for name, number in values.items():
        value = inputs.get(name)
        if value is None:
            raise InputError(f"no input {name!r}", where=_OPTION, remedy=f"there are {', '.join(inputs)}")
        if value.shape is None or not all(is_size(dim) for dim in value.shape):
            raise InputError(
                f"the input {name} has a dimension without a size", where=_OPTION,
                remedy="fix inputs of a known shape only, such as a single number",
            )  # fmt: skip
        array = np.full(value.shape.numpy(), number)
        dtype = (value.dtype or ir.DataType.FLOAT).numpy()
        with np.errstate(invalid="ignore", over="ignore"):
            stored = array.astype(dtype)
        if dtype.kind != "f" and not np.array_equal(stored.astype(np.float64), array):
            raise InputError(f"the input {name} is {dtype}, which does not hold {number:g}", where=_OPTION)
        graph.inputs.remove(value)
        value.const_value = ir.tensor(stored, name=name)
        graph.register_initializer(value)
