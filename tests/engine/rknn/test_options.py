from __future__ import annotations

from typing import Any

import pytest

from chipwise.engine.rknn.options import RknnOptions
from chipwise.errors import EngineError


def test_what_a_build_writes_and_what_a_user_adds() -> None:
    read = RknnOptions.read({"toolkit_version": "2.5.0", "core_mask": "0_1", "contexts": 2, "mask_value": -30})
    assert (read.core_mask, read.contexts, read.mask_value, read.pass_through) == ("0_1", 2, -30, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 2}, "no option 'threads'; it has core_mask, contexts, pass_through"),
        ({"contexts": 0}, "contexts is 0, not a number from 1 to 16"),
        ({"contexts": 17}, "contexts is 17"),
        ({"contexts": True}, "contexts is True"),
        ({"contexts": "3"}, "contexts is '3'"),
        ({"pass_through": 1}, "pass_through is 1, not true or false"),
        ({"mask_value": "-30"}, "mask_value is '-30', not a number"),
        ({"sliding_window": 0}, "sliding_window is 0, not a number of tokens"),
    ],
)
def test_malformed_ones(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        RknnOptions.read(options)
