"""Rules about normalization layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from chipwise.check.check_input import CheckInput, label
from chipwise.check.rule import Hit, rule

NORMALIZATIONS = frozenset(
    {
        "BatchNormalization",
        "GroupNormalization",
        "InstanceNormalization",
        "LayerNormalization",
        "RMSNormalization",
    }
)


@rule
def epsilon(given: CheckInput) -> Iterator[Hit]:
    """A normalization leaves its epsilon to ONNX's default.

    Why: Legal ONNX, but a converter may read the attribute without asking (rknn-toolkit2: KeyError
    'LayerNormalization').

    Limit: `explicit_epsilon` of the target, from its toolchain.

    Remedy: The build writes the default, 1e-5, into the node; nothing to do.
    """
    wanted = given.limits.explicit_epsilon
    if wanted is None or not wanted.value:
        return
    silent = [
        node
        for node in given.nodes
        if node.op_type in NORMALIZATIONS and not node.domain and "epsilon" not in node.attributes
    ]
    counts = Counter(node.op_type for node in silent)
    for op, nodes in counts.items():
        first = next(node for node in silent if node.op_type == op)
        yield Hit("warning", label(first), f"{nodes} {op} without epsilon", "an explicit epsilon")
