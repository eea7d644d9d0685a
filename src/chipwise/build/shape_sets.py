"""ShapeSet: one of several sizes that a graph is compiled for in one file, and which targets take such a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx_ir as ir

from chipwise.build.chip_toolchain import installed_toolchain, why_emulated
from chipwise.build.options import BuildOptions
from chipwise.check.symbolic import dim_symbols, input_dim_size, is_size
from chipwise.errors import InputError
from chipwise.rewrite.pass_ import Feed
from chipwise.target import Target

_MOST = 32
_ORT = "onnxruntime"


@dataclass(frozen=True)
class ShapeSet:
    """Sizes that go together.

    Attributes:
        dims: The size of each symbolic dimension, by name or as ``input:axis``.
        inputs: The shape of each input that they give.
    """

    dims: Mapping[str, int]
    inputs: Mapping[str, tuple[int, ...]]

    @property
    def label(self) -> str:
        """It in words, e.g. ``N=2, H=224``."""
        return ", ".join(f"{name}={size}" for name, size in self.dims.items())

    @property
    def values(self) -> int:
        """How many numbers its inputs hold."""
        return sum(prod(shape) for shape in self.inputs.values())

    def fits(self, feed: Feed) -> bool:
        """Whether a sample is of these shapes."""
        return all(np.shape(feed[name]) == shape for name, shape in self.inputs.items())


def largest(shapes: tuple[ShapeSet, ...]) -> int:
    """Position of the set whose inputs hold most numbers: the one that the toolkit calibrates with."""
    return max(range(len(shapes)), key=lambda index: shapes[index].values)


def read_shape_sets(options: BuildOptions, target: Target, graph: ir.Graph) -> tuple[ShapeSet, ...]:
    """The sets that the user listed; none where every dimension was given one size.

    Raises:
        InputError: The target takes no list, a dimension is unknown or has no size, or two sets are equal.
    """
    listed = options.shape_sets
    if not listed:
        return ()
    if target.engine == _ORT:
        raise InputError(
            f"{target.name} takes every size as it comes, so none is listed", where="--dim",
            remedy="leave the sizes out, or build once for each",
        )  # fmt: skip
    if installed_toolchain(options, target) is None:
        raise InputError(
            f"several sizes in one file need the chip's own compiler ({why_emulated(options, target)})", where="--dim",
            remedy="give one size, or let the toolkit compile",
        )  # fmt: skip
    if len(listed) > _MOST:
        raise InputError(f"{len(listed)} sizes in one file, at most {_MOST}", where="--dim", remedy="list fewer")
    inputs = [value for value in graph.inputs if value.name not in graph.initializers]
    _require_known(inputs, listed[0])
    sets = tuple(ShapeSet(dims, {str(value.name): _shape(value, dims) for value in inputs}) for dims in listed)
    for index, one in enumerate(sets):
        if any(one.inputs == other.inputs for other in sets[:index]):
            raise InputError(f"{one.label} is listed twice", where="--dim", remedy="list each once")
    return sets


def _require_known(inputs: list[ir.Value], dims: Mapping[str, int]) -> None:
    known: set[str] = set()
    for value in inputs:
        for axis, dim in enumerate(value.shape or ()):
            if not is_size(dim):
                known |= {f"{value.name}:{axis}", str(dim), *dim_symbols(dim)}
    unknown = sorted(set(dims) - known)
    if unknown:
        raise InputError(
            f"the model has no symbolic dimension {', '.join(unknown)}", where="--dim",
            remedy=f"it has {', '.join(sorted(known)) or 'none'}",
        )  # fmt: skip


def _shape(value: ir.Value, dims: Mapping[str, int]) -> tuple[int, ...]:
    if value.shape is None:
        raise InputError("the input declares no shape", where=str(value.name), remedy="export the model with shapes")
    sizes = []
    for axis, dim in enumerate(value.shape):
        size = input_dim_size(value, axis, dims)
        if size is None:
            name = str(dim) if dim_symbols(dim) else f"{value.name}:{axis}"
            raise InputError(
                f"the size of {name} is not told", where="--dim", remedy=f"give one for all, or as many: --dim {name}=1"
            )
        sizes.append(size)
    return tuple(sizes)
