"""CoreMask: which cores of the NPU a model runs on."""

from __future__ import annotations

from chipwise.engine.rockchip_board import RockchipBoard
from chipwise.errors import EngineError

AUTO = "auto"

# rknn-toolkit-lite2 2.5.0, RKNNLite.NPU_CORE_*: the value, and the cores that a chip must have.
_MASKS = {AUTO: (0, 1), "0": (1, 1), "1": (2, 2), "2": (4, 3), "0_1": (3, 2), "0_1_2": (7, 3), "all": (0xFFFF, 1)}


def mask_value(name: object, board: RockchipBoard) -> int:
    """The runtime's number for a mask by name.

    Raises:
        EngineError: There is no mask of that name, or the chip has fewer cores.
    """
    has = [mask for mask, (_, cores) in _MASKS.items() if cores <= board.npu_cores]
    if not isinstance(name, str) or name not in _MASKS:
        raise EngineError(
            f"the option core_mask is {name!r}", where="rknn", remedy=f"write one of {', '.join(has)} in quotes"
        )
    if name not in has:
        raise EngineError(
            f"core_mask {name} asks for more than the {board.npu_cores} NPU core(s) of {board.chip or 'this board'}",
            where="rknn",
            remedy=f"take one of {', '.join(has)}",
        )
    # Only chips of several cores know masks: every other one runs on the core it has.
    return _MASKS[name][0] if board.npu_cores > 1 else _MASKS[AUTO][0]


def masks_of_contexts(count: int, name: object | None, board: RockchipBoard) -> tuple[int, ...]:
    """The mask of each of several contexts: the one that was named, else each on a core of its own, in turn.

    Raises:
        EngineError: The mask is none of this chip's.
    """
    if name is not None:
        return (mask_value(name, board),) * count
    if count == 1 or board.npu_cores == 1:
        return (mask_value(AUTO, board),) * count
    return tuple(mask_value(str(index % board.npu_cores), board) for index in range(count))
