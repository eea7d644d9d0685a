"""Rules about operators: where they run, and what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from chipwise.check.check_input import CheckInput, label
from chipwise.check.linears import linears
from chipwise.check.placement import PlacementCount, count_placement
from chipwise.check.rule import Hit, rule
from chipwise.check.wide_products import wide_products
from chipwise.target.units import human

# The rule about control flow names these, and says more.
_REPORTED_AS_FLOW = frozenset({"If", "Loop", "NonZero", "Scan"})


@rule
def unsupported_operators(given: CheckInput) -> Iterator[Hit]:
    """The target runs an operator on no unit at all.

    Why: The toolchain refuses it, or worse: rknn-toolkit2 returns success on Det, and only its log says
    "No lowering found".

    Limit: `placement` of the target: what its compiler did in tests.

    Remedy: Replace the operator, or run this part on the CPU outside the graph.
    """
    if not _placed(given):
        return
    flow = _REPORTED_AS_FLOW if given.limits.control_flow is not None else frozenset()
    count = count_placement(given)
    for op, nodes in count.ops.get("unsupported", Counter()).most_common():
        if op not in flow:
            yield Hit("error", label(count.examples[op]), f"{nodes} {op}", f"0 {op}")


@rule
def placement(given: CheckInput) -> Iterator[Hit]:
    """Operators run on the CPU instead of the accelerator.

    Why: Each one splits the graph, and the data crosses to the CPU and back; three small operators on the CPU can make
    the whole slower than the CPU alone. A toolchain that returns success says nothing about this.

    Limit: `placement` of the target: the vendor's operator list, and what its compiler did in tests.

    Remedy: Replace the operator by ones that the accelerator has, or move it to the start or the end of the graph.
    """
    if not _placed(given):
        return
    count = count_placement(given)
    on_cpu = count.ops.get("cpu", Counter())
    if on_cpu:
        yield _on_cpu(given, count, on_cpu)


@rule
def unknown_placement(given: CheckInput) -> Iterator[Hit]:
    """No source says where operators run; they are counted as on the accelerator.

    Why: Operator lists are incomplete, and compilers fuse: only the compiled model tells.

    Limit: `placement` of the target.

    Remedy: Compile the model and read the toolchain's placement table.
    """
    if not _placed(given):
        return
    unknown = count_placement(given).unknown
    if unknown:
        listed = ", ".join(f"{nodes} {op}" for op, nodes in unknown.most_common(8))
        yield Hit("info", given.name, f"{unknown.total()} nodes: {listed}", "a known place")


def _placed(given: CheckInput) -> bool:
    """Whether there is anything to place, and a table to place it by."""
    return given.graph is not None and given.has_accelerator and bool(given.limits.placement)


def _on_cpu(given: CheckInput, count: PlacementCount, on_cpu: Counter[str]) -> Hit:
    listed = ", ".join(f"{nodes} {op}" for op, nodes in on_cpu.most_common(8))
    partitions = given.limits.partitions_max
    broken = partitions is not None and count.segments > int(partitions)
    return Hit(
        "warning",
        ", ".join(label(count.examples[op]) for op, _ in on_cpu.most_common(3)),
        f"{on_cpu.total()} of {count.by_place.total()} nodes on the CPU, {count.segments} parts on the accelerator, "
        f"{_crossing(count)} cross a run",
        "0 on the CPU" if partitions is None else f"at most {partitions.value:g} part on the accelerator",
        listed + (f"; all that follows the first {int(partitions)} runs on the CPU" if broken and partitions else ""),
    )


def _crossing(count: PlacementCount) -> str:
    unsized = f" and {count.unsized} of unknown size" if count.unsized else ""
    return f"{human(count.crossing_bytes, 'B')} in {count.crossings - count.unsized} tensors{unsized}"


@rule
def resize_mode(given: CheckInput) -> Iterator[Hit]:
    """A Resize interpolates in a way that the target's toolchain does not survive.

    Why: rknn-toolkit2 ends with a segmentation fault on a cubic one, and names nothing.

    Limit: `refused_resize_modes` of the target, from its toolchain.

    Remedy: Export the model with a linear or nearest Resize, or resize on the CPU outside the graph.
    """
    refused = given.limits.refused_resize_modes
    if refused is None:
        return
    for node in given.nodes:
        mode = node.attributes.get("mode") if node.op_type == "Resize" and not node.domain else None
        if mode is not None and mode.as_string() in refused.value:
            yield Hit("error", label(node), f"mode {mode.as_string()}", f"not {', '.join(refused.value)}")


@rule
def wide_output(given: CheckInput) -> Iterator[Hit]:
    """An output layer has more columns than the accelerator hands out row by row.

    Why: The compiler gives the change of layout behind it to the CPU without failing (rknn-toolkit2 for rk3588:
    "channel is too large, may produce thousands of regtask, fallback to cpu!"). Layers inside the graph keep their
    layout, and one row alone, as when decoding, needs no change.

    Limit: `out_columns_max` of the target, measured with its compiler.

    Remedy: The build splits a graph's layer along its columns, which holds up to 49152 columns in float16 and 16384 in
    8 bits; beyond, compute the last row only, or let the graph put out the transposed result.
    """
    limit = given.limits.out_columns_max
    if limit is None:
        return
    if given.graph is None:
        found = [(linear.name, linear.n) for linear in linears(given) if linear.is_head and linear.n > int(limit)]
    else:
        found = [(label(one.node), one.columns) for one in wide_products(given.nodes, int(limit), given.dims)]
    for name, columns in found:
        yield Hit("warning", name, f"{columns} columns", f"at most {limit.value:g} columns")


@rule
def matmul_length(given: CheckInput) -> Iterator[Hit]:
    """A matrix product sums over more values than the accelerator takes in one piece.

    Why: The compiler splits it and adds the parts, which costs time and, with integers, range.

    Limit: `matmul_k_max` of the target, from the vendor's operator list.

    Remedy: Nothing to do; expect this layer to be slower than its size says.
    """
    limit = given.limits.matmul_k_max
    if limit is None:
        return
    for linear in linears(given):
        if linear.k > int(limit):
            yield Hit("info", linear.name, f"K = {linear.k}", f"K <= {limit.value:g}")


@rule
def custom_operators(given: CheckInput) -> Iterator[Hit]:
    """The graph has operators from outside the ONNX standard.

    Why: A vendor's toolchain refuses what it was not taught; an operator registered for it leaks into later builds of
    the same process.

    Limit: ONNX's own operators, and ONNX Runtime's where that is the target's runtime.

    Remedy: Export the model with standard operators only.
    """
    if given.graph is None:
        return
    functions = set(given.graph.functions)
    counts: Counter[tuple[str, str]] = Counter()
    for node in given.nodes:
        if node.domain in ("", "ai.onnx") or node.op_identifier() in functions:
            continue
        if node.domain == "com.microsoft" and given.target.engine == "onnxruntime":
            continue
        counts[node.domain, node.op_type] += 1
    for (domain, op), nodes in counts.items():
        yield Hit("error", f"{domain}.{op}", f"{nodes} nodes of domain {domain}", "ai.onnx")
