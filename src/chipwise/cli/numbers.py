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
