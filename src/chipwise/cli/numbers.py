"""Numbers on the command line: the ranges of options that several commands share, and sizes of dimensions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import click

from chipwise.errors import InputError

# No model and no machine has more; ONNX counts in 64 bits, and sums of products must stay within them.
_MOST_TOKENS = (1 << 31) - 1

CONTEXT = click.IntRange(2, _MOST_TOKENS)
STREAMS = click.IntRange(1, 1 << 16)
SLOTS = click.IntRange(1, 4096)
THREADS = click.IntRange(1, 1024)
THREADS_OR_ALL = click.IntRange(0, 1024)
# A year. Systems count what they wait for in fewer bits than a float has.
LONGEST_S = 366 * 86400.0


def dimensions(texts: Sequence[str]) -> dict[str, int]:
    """The sizes of ``NAME=SIZE`` texts.

    Raises:
        InputError: A text is not of that form, or its size is no tensor's.
    """
    sizes: dict[str, int] = {}
    for text in texts:
        name, _, size = text.rpartition("=")
        if not name or not size.isdecimal() or not 1 <= int(size[:20]) <= _MOST_TOKENS:
            raise InputError(
                f"{text[:80]!r} is no dimension", where="--dim",
                remedy=f"write it like --dim sequence=128, from 1 to {_MOST_TOKENS}",
            )  # fmt: skip
        _refuse_twice(name, sizes, "--dim", "a file has one size of each; build once for every size")
        sizes[name] = int(size)
    return sizes


def dimension_sets(texts: Sequence[str]) -> tuple[dict[str, int], ...]:
    """The sizes of ``NAME=SIZE`` or ``NAME=SIZE,SIZE,...`` texts: the k-th of every list go together.

    A dimension with one size has it in all of them.

    Raises:
        InputError: A text is not of that form, its size is no tensor's, or lists are of different lengths.
    """
    _refuse_repeated(texts)
    lists: dict[str, list[int]] = {}
    for text in texts:
        name, _, sizes = text.rpartition("=")
        each = [f"{name}={size}" for size in sizes.split(",")] if "," in sizes else [text]
        lists[name] = [size for one in each for size in dimensions([one]).values()]
    counts = {name: len(sizes) for name, sizes in lists.items() if len(sizes) > 1}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise InputError(
            f"lists of different lengths: {said}", where="--dim",
            remedy="the first sizes of all go together, then the second ones: write each combination out",
        )  # fmt: skip
    most = max(counts.values(), default=1)
    return tuple(
        {name: sizes[index] if len(sizes) > 1 else sizes[0] for name, sizes in lists.items()} for index in range(most)
    )


def _refuse_repeated(texts: Sequence[str]) -> None:
    seen: dict[str, object] = {}
    for text in texts:
        name = text.rpartition("=")[0]
        _refuse_twice(name, seen, "--dim", f"list its sizes once: --dim {name}=1,2")
        seen[name] = text


def fixed_values(texts: Sequence[str]) -> dict[str, float]:
    """The values of ``NAME=VALUE`` texts.

    Raises:
        InputError: A text is not of that form, or its value is no finite number.
    """
    values: dict[str, float] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not name or not math.isfinite(value):
            raise InputError(
                f"{text[:80]!r} gives no input a value", where="--fix", remedy="write it like --fix sr=16000"
            )
        _refuse_twice(name, values, "--fix", "give it one value; build once for every value")
        values[name] = value
    return values


def _refuse_twice(name: str, given: Mapping[str, object], option: str, remedy: str) -> None:
    if name in given:
        raise InputError(f"{name} is given twice", where=option, remedy=remedy)
