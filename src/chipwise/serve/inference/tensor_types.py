"""The number types of the Open Inference Protocol, version 2, and NumPy's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from chipwise.errors import EngineError

BYTES = "BYTES"
"""Elements of any length: here always pictures or recordings."""

DTYPES: Mapping[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    **{f"UINT{bits}": np.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"INT{bits}": np.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": np.dtype(f"<f{bits // 8}") for bits in (16, 32, 64)},
}
"""NumPy's type of each, in the byte order of the wire."""

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def type_name(dtype: np.dtype[Any]) -> str:
    """The protocol's name of a type.

    Raises:
        EngineError: It has none.
    """
    name = _NAMES.get(dtype.newbyteorder("<"))
    if name is None:
        raise EngineError(f"an output of type {dtype} cannot be sent")
    return name
