from __future__ import annotations

import pytest

from chipwise.engine.rknn.core_mask import mask_value, masks_of_contexts
from chipwise.engine.rockchip_board import RockchipBoard
from chipwise.errors import EngineError

RK3588, RK3576, RK3566 = (RockchipBoard(chip, n, None) for chip, n in (("rk3588", 3), ("rk3576", 2), ("rk3566", 1)))


@pytest.mark.parametrize(
    ("name", "value"), [("auto", 0), ("0", 1), ("1", 2), ("2", 4), ("0_1", 3), ("0_1_2", 7), ("all", 0xFFFF)]
)
def test_three_cores(name: str, value: int) -> None:
    assert mask_value(name, RK3588) == value


@pytest.mark.parametrize(("name", "value"), [("1", 2), ("0_1", 3), ("all", 0xFFFF)])
def test_two_cores(name: str, value: int) -> None:
    assert mask_value(name, RK3576) == value


@pytest.mark.parametrize("name", ["auto", "0", "all"])
def test_one_core_takes_no_mask(name: str) -> None:
    assert mask_value(name, RK3566) == 0


@pytest.mark.parametrize(
    ("name", "board", "message"),
    [
        (
            "2",
            RK3576,
            r"core_mask 2 asks for more than the 2 NPU core\(s\) of rk3576; take one of auto, 0, 1, 0_1, all",
        ),
        ("0_1_2", RK3576, "take one of auto, 0, 1, 0_1, all"),
        ("1", RK3566, "take one of auto, 0, all"),
        ("1", RockchipBoard(None, 1, None), "of this board"),
        ("both", RK3588, "core_mask is 'both'; write one of auto, 0, 1, 2, 0_1, 0_1_2, all"),
        (7, RK3588, "core_mask is 7; write one of"),
        (None, RK3588, "core_mask is None"),
        (["0"], RK3588, "core_mask is"),
    ],
)
def test_what_the_chip_does_not_have(name: object, board: RockchipBoard, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        mask_value(name, board)


@pytest.mark.parametrize(
    ("count", "name", "board", "masks"),
    [
        (1, None, RK3588, (0,)),
        (2, None, RK3588, (1, 2)),
        (5, None, RK3588, (1, 2, 4, 1, 2)),
        (3, None, RK3576, (1, 2, 1)),
        (3, None, RK3566, (0, 0, 0)),
        (2, "0_1_2", RK3588, (7, 7)),
        (3, "auto", RK3588, (0, 0, 0)),
    ],
)
def test_contexts_take_a_core_each(count: int, name: str | None, board: RockchipBoard, masks: tuple[int, ...]) -> None:
    assert masks_of_contexts(count, name, board) == masks
