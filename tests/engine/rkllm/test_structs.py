from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from chipwise.engine.rkllm import structs

# On a 64-bit ABI, by the rules of C applied to the header; the fake says what its compiler makes of it.
SIZES = {
    "Param": 184,
    "Input": 160,
    "InferParam": 40,
    "Result": 72,
    "Callbacks": 48,
    "SamplingParam": 36,
    "PromptCacheParam": 16,
}


@pytest.mark.parametrize(("name", "size"), SIZES.items())
def test_sizes_are_those_of_c(name: str, size: int, library: Path) -> None:
    assert ctypes.sizeof(getattr(structs, name)) == size
    assert ctypes.CDLL(str(library)).fake_sizeof(name.encode()) == size


def test_where_the_extended_parameters_begin() -> None:
    assert structs.Param.extend_param.offset == 60
    assert ctypes.sizeof(structs.ExtendParam) == 120
