"""Rules about the ONNX opset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from chipwise.check.check_input import CheckInput
from chipwise.check.opset_schema import is_standard, schema_of
from chipwise.check.rule import Hit, rule


@rule
def opset(given: CheckInput) -> Iterator[Hit]:
    """The model's opset is outside what the target's toolchain reads.

    Why: A converter refuses an opset it does not know, whatever operators the model has (rknn-toolkit2: "Unsupport onnx
    opset 20, need <= 19!").

    Limit: `opset_min` and `opset_max` of the target, from its toolchain.

    Remedy: The build converts the opset and proves the outputs equal, or names the operator that it cannot convert.
    """
    if given.graph is None:
        return
    imports = given.graph.graph.opset_imports
    found = imports.get("", imports.get("ai.onnx", 1))
    limits = given.limits
    if limits.opset_max is not None and found > int(limits.opset_max):
        highest = int(limits.opset_max)
        blocked = _blocked(given, found, highest)
        if blocked:
            yield Hit(
                "error",
                ", ".join(op for op, _ in blocked.most_common()),
                f"opset {found}",
                f"opset {highest}",
                "these operators do not exist in the lower opset and have no definition by older ones",
                f"Export the model with opset {highest}, or replace them",
            )
        else:
            yield Hit(
                "warning",
                given.name,
                f"opset {found}",
                f"opset {highest}",
                "every operator exists there, or is defined by older ones",
            )
    if limits.opset_min is not None and found < int(limits.opset_min):
        yield Hit(
            "warning", given.name, f"opset {found}", f"opset {int(limits.opset_min)} or newer", "it can be raised"
        )


def _blocked(given: CheckInput, source: int, target: int) -> Counter[str]:
    """Operators that no older opset has, and that ONNX does not define by simpler ones."""
    blocked: Counter[str] = Counter()
    for node in given.nodes:
        if not is_standard(node) or schema_of(node.op_type, target) is not None:
            continue
        schema: Any = schema_of(node.op_type, source)  # onnx's type stubs do not know the members about functions
        if schema is None or not (schema.has_function or schema.has_context_dependent_function):
            blocked[node.op_type] += 1
    return blocked
