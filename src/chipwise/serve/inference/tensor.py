"""Given: one tensor of a request, held against the input it is for before anything is allocated."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from chipwise.engine.graph_session import TensorSpec
from chipwise.errors import RequestError
from chipwise.serve.inference.feed_buffer import FeedBuffer
from chipwise.serve.inference.tensor_types import DTYPES

_MAX_RANK = 16


@dataclass(frozen=True)
class Given:
    """A tensor of numbers as it came.

    Attributes:
        name: The input it is for.
        shape: Its sizes.
        datatype: The protocol's name of its type.
        data: Its numbers in row-major order: little-endian bytes, which may be of another program, the same in base64,
            or a list, flat or nested.
        where: What it is called in errors, e.g. ``inputs[0]``.
    """

    name: str
    shape: tuple[int, ...]
    datatype: str
    data: bytes | memoryview | str | list[Any]
    where: str

    def checked(self, spec: TensorSpec) -> Given:
        """The same with its list flat, if it fits the input.

        Raises:
            RequestError: Type, shape or number of elements are others.
        """
        dtype = DTYPES[self.datatype]
        if spec.dtype is not None and spec.dtype != dtype.newbyteorder("="):
            wanted = next((name for name, one in DTYPES.items() if one == spec.dtype), str(spec.dtype))
            raise bad(f"{self.where}.datatype", f"the input {self.name!r} takes {wanted}, not {self.datatype}")
        check_shape(self.shape, spec, f"{self.where}.shape")
        count = math.prod(self.shape)
        if isinstance(self.data, list):
            numbers = _flat(self.data)
            self._check_numbers(numbers, dtype)
            given, unit = len(numbers), "numbers"
        else:
            numbers, unit = [], "bytes"
            count *= dtype.itemsize
            given = _decoded_bytes(self.data) if isinstance(self.data, str) else len(self.data)
        if given != count:
            raise bad(f"{self.where}.data", f"holds {given} {unit}, the shape {list(self.shape)} needs {count}")
        data = numbers if isinstance(self.data, list) else self.data
        return Given(self.name, self.shape, self.datatype, data, self.where)

    def filled(self, buffer: FeedBuffer) -> npt.NDArray[Any]:
        """The array. It may lie in the buffer, or in the bytes that were given.

        Raises:
            RequestError: It is no base64.
        """
        dtype = DTYPES[self.datatype]
        if isinstance(self.data, list):
            array = buffer.array(self.name, self.shape, dtype)
            with np.errstate(over="ignore"):
                array.reshape(-1)[:] = self.data
            return array
        raw = self.data
        if isinstance(raw, str):
            try:
                raw = base64.b64decode(raw, validate=True)
            except (binascii.Error, ValueError) as e:
                raise bad(f"{self.where}.data", f"is no base64 ({e})") from e
        found: npt.NDArray[Any] = np.frombuffer(raw, dtype).reshape(self.shape)
        if found.flags.aligned:
            return found
        array = buffer.array(self.name, self.shape, dtype)
        array[...] = found
        return array

    def _check_numbers(self, numbers: Sequence[Any], dtype: np.dtype[Any]) -> None:
        kinds: tuple[type, ...] = {"b": (bool,), "f": (int, float)}.get(dtype.kind, (int,))
        wrong = next((value for value in numbers if type(value) not in kinds), None)
        if wrong is not None:
            shown = f"a {type(wrong).__name__}" if isinstance(wrong, (list, dict)) else repr(str(wrong)[:40])
            raise bad(f"{self.where}.data", f"holds {shown}, which is no {self.datatype}")
        if dtype.kind in "iu" and numbers:
            limits = np.iinfo(dtype)
            if min(numbers) < limits.min or max(numbers) > limits.max:
                raise bad(f"{self.where}.data", f"holds numbers outside {limits.min} to {limits.max}")


def check_shape(shape: Sequence[int], spec: TensorSpec, where: str) -> None:
    """Hold a shape against an input's.

    Raises:
        RequestError: They differ where the input's sizes are not free.
    """
    fits = len(shape) == len(spec.shape) and all(
        wanted is None or wanted == given for given, wanted in zip(shape, spec.shape, strict=True)
    )
    if not fits:
        wanted = [-1 if size is None else size for size in spec.shape]
        raise bad(where, f"is {list(shape)}, the input {spec.name!r} takes {wanted} (-1 is free)")


def check_listed(given: Mapping[str, Sequence[int]], shapes: Sequence[Mapping[str, Sequence[int]]]) -> None:
    """Hold the shapes of a request's inputs together against those that a model was compiled for.

    Args:
        given: Shapes by input; one that is not known yet may be missing.
        shapes: What goes together; empty where nothing is listed.

    Raises:
        RequestError: They are none of the listed ones.
    """
    if not shapes or any(all(list(one[name]) == list(shape) for name, shape in given.items()) for one in shapes):
        return
    listed = "; ".join(_said(one) for one in shapes)
    raise bad("inputs", f"are {_said(given)}, the model takes {listed}")


def _said(shapes: Mapping[str, Sequence[int]]) -> str:
    return ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())


def bad(where: str, what: str) -> RequestError:
    """What is wrong with a place in the request."""
    return RequestError(what, where=where, code="invalid_value", param=where)


def _flat(data: list[Any]) -> list[Any]:
    for _ in range(_MAX_RANK):
        if not data or not all(type(one) is list for one in data):
            break
        data = list(chain.from_iterable(data))
    return data


def _decoded_bytes(text: str) -> int:
    """How many bytes base64 holds, without decoding it."""
    return len(text) // 4 * 3 - (len(text) - len(text.rstrip("="))) if len(text) % 4 == 0 else -1
