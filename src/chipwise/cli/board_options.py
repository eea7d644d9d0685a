"""The options of commands that serve with a board in view."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from chipwise.errors import InputError
from chipwise.serve.hardware.board_option import BoardSettings
from chipwise.serve.hardware.policy import PolicySettings
from chipwise.sim import PREFIX, board_names

_Command = TypeVar("_Command", bound=Callable[..., Any])

_DEFAULT = PolicySettings()
_DEFAULT_AIR_C = BoardSettings().air_c


def _finite(_: click.Context, option: click.Parameter, value: float | None) -> float | None:
    # NaN lies in every range of click's.
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no number.", param=option)
    return value


_OPTIONS = (
    click.option(
        "--board",
        help="Board in view: a folder that stands for its root, or a virtual one "
        f"({', '.join(PREFIX + name for name in board_names())}).  [default: this machine]",
    ),
    click.option(
        "--trip",
        type=click.FloatRange(0, 150),
        callback=_finite,
        help="Degrees that are not to be passed.  [default: the board's own passive trip, else 75]",
    ),
    click.option(
        "--peak-watts",
        type=click.FloatRange(0, min_open=True),
        callback=_finite,
        help="What the board may draw at most.  [default: power decides nothing]",
    ),
    click.option(
        "--sustained",
        type=click.FloatRange(0, 1, min_open=True),
        callback=_finite,
        help=f"Share of --peak-watts to plan with.  [default: {_DEFAULT.sustained:g}]",
    ),
    click.option(
        "--clock-floor",
        type=click.FloatRange(0, 1, min_open=True),
        callback=_finite,
        help="Lowest clock that may be set, over the highest.  [default: clocks are left alone]",
    ),
    click.option(
        "--air",
        type=click.FloatRange(-40, 100),
        callback=_finite,
        help=f"Degrees around a virtual board.  [default: {_DEFAULT_AIR_C:g}]",
    ),
)


def board_options(command: _Command) -> _Command:
    """Add the options to a command; `board_settings` takes their values."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def board_settings(
    board: str | None,
    trip: float | None,
    peak_watts: float | None,
    sustained: float | None,
    clock_floor: float | None,
    air: float | None,
) -> BoardSettings:
    """What the options say.

    Raises:
        InputError: They contradict each other, one means nothing without another, or the board has no name.
    """
    if sustained is not None and peak_watts is None:
        raise InputError(
            "there is no power to take a share of", where="--sustained", remedy="add --peak-watts, or leave it out"
        )
    if board == "":
        # What a variable of the shell leaves that is not set.
        raise InputError("it names no board", where="--board", remedy=f"give a folder or {PREFIX}rk3576")
    if air is not None and not (board or "").startswith(PREFIX):
        raise InputError(
            "only a virtual board has air that can be chosen", where="--air", remedy=f"add --board {PREFIX}rk3576"
        )
    share = _DEFAULT.sustained if sustained is None else sustained
    policy = PolicySettings(trip_c=trip, peak_w=peak_watts, sustained=share)
    return BoardSettings(board, policy, clock_floor, _DEFAULT_AIR_C if air is None else air)
