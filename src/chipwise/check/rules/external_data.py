"""Rules about weights that lie outside the ONNX file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx_ir as ir

from chipwise.check.check_input import CheckInput
from chipwise.check.rule import Hit, rule


@rule
def external_data(given: CheckInput) -> Iterator[Hit]:
    """Weights that the graph refers to are not where it says.

    Why: Tools read them late: the conversion ends after minutes, or reads zeros.

    Limit: A file beside the ONNX file, long enough for every tensor in it.

    Remedy: Put the file beside the ONNX file again, or save the model once more.
    """
    if given.graph is None:
        return
    missing: dict[str, int] = {}
    short: dict[str, int] = {}
    for value in given.graph.graph.initializers.values():
        tensor = value.const_value
        if not isinstance(tensor, ir.ExternalTensor):
            continue
        if not Path(tensor.path).is_file():
            missing[str(tensor.location)] = missing.get(str(tensor.location), 0) + 1
        elif not is_there(tensor):
            short[str(tensor.location)] = short.get(str(tensor.location), 0) + 1
    for name, count in missing.items():
        yield Hit("error", name, f"no file, {count} tensors in it", "a file beside the model")
    for name, count in short.items():
        yield Hit("error", name, f"{count} tensors end behind the end of the file", "the whole file")


def is_there(tensor: ir.TensorProtocol) -> bool:
    """Whether all values of a tensor can be read: they lie in the graph, or in a file that is long enough."""
    if not isinstance(tensor, ir.ExternalTensor):
        return True
    path = Path(tensor.path)
    return path.is_file() and path.stat().st_size >= (tensor.offset or 0) + tensor.nbytes
