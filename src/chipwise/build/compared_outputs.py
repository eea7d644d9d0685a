"""ComparedOutputs: a candidate's outputs beside the float graph's, over all samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from chipwise.build.compiled_graph import Outputs
from chipwise.build.graph_file import GraphFile
from chipwise.bundle.output_channels import channels_last
from chipwise.errors import EngineError
from chipwise.quant.calibration import Progress
from chipwise.report.report import LayerCosine
from chipwise.rewrite.pass_ import Feed
from chipwise.verify.cosine import ChannelCosine

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ComparedOutputs:
    """How close a candidate stays.

    Attributes:
        outputs: Cosines of each output of floating-point numbers.
        equal: Share of equal values of each other output: an index or a flag is right or wrong, and has no direction.
        nonfinite: Samples that gave a NaN or infinity.
        gains: By what factor each output of floating-point numbers follows the float graph's; a cosine is blind to it.
    """

    outputs: tuple[LayerCosine, ...]
    equal: Mapping[str, float]
    nonfinite: int
    gains: Mapping[str, float]


def compare_outputs(
    reference: GraphFile, others: Iterable[Outputs], feeds: Sequence[Feed], threads: int, progress: Progress
) -> ComparedOutputs:
    """Run the reference on each sample and compare it with what the candidate computed of it.

    Args:
        reference: The float graph.
        others: The candidate's outputs, as many as samples and in their order.
        feeds: The samples.
        threads: Threads of the reference.
        progress: Told after each sample.

    Raises:
        EngineError: The runtime failed, or an output is missing or of another shape.
    """
    ours = reference.open(threads)
    try:
        sums: dict[str, ChannelCosine] = {}
        equal: dict[str, list[int]] = {}
        nonfinite = 0
        for done, (feed, other) in enumerate(zip(feeds, others, strict=True), start=1):
            nonfinite += not _finite(other)
            one = ours.run(feed)
            add_floats(sums, one, other)
            _count_equal(equal, one, other)
            progress(done, len(feeds))
    finally:
        ours.close()
    shares = {name: same / of if of else 1.0 for name, (same, of) in equal.items()}
    gains = {name: total.gain() for name, total in sums.items()}
    return ComparedOutputs(tuple(total.result(name) for name, total in sums.items()), shares, nonfinite, gains)


def merged(parts: Sequence[tuple[str, ComparedOutputs]]) -> ComparedOutputs:
    """What was compared of several shapes as one, so that the worst counts; each output is named with its shape.

    Args:
        parts: A shape in words, empty for the only one, and what was found of it.
    """
    named = [(f" at {label}" if label else "", one) for label, one in parts]
    return ComparedOutputs(
        outputs=tuple(replace(line, name=f"{line.name}{at}") for at, one in named for line in one.outputs),
        equal={f"{name}{at}": share for at, one in named for name, share in one.equal.items()},
        nonfinite=sum(one.nonfinite for _, one in named),
        gains={f"{name}{at}": gain for at, one in named for name, gain in one.gains.items()},
    )


def add_floats(sums: dict[str, ChannelCosine], one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Add the floating-point values of a sample to the sums, by name.

    Raises:
        EngineError: The candidate lacks one, or it is of another shape.
    """
    for name, value in one.items():
        found = np.shape(other[name]) if name in other else None
        if found != np.shape(value):
            said = "is missing" if found is None else f"is {list(found)} instead of {list(np.shape(value))}"
            raise EngineError(f"the candidate's output {said}", where=f"output {name}")
        if np.asarray(value).dtype.kind == "f":
            reference, candidate = channels_last(value), channels_last(other[name])
            sums.setdefault(name, ChannelCosine(reference.shape[-1])).add(reference, candidate)


def _count_equal(counts: dict[str, list[int]], one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    for name, value in one.items():
        if np.asarray(value).dtype.kind != "f":
            same = counts.setdefault(name, [0, 0])
            same[0] += int(np.count_nonzero(np.asarray(value) == np.asarray(other[name])))
            same[1] += int(np.size(value))


def _finite(outputs: Mapping[str, Array]) -> bool:
    return all(bool(np.isfinite(array).all()) for array in outputs.values())
