"""Opening the board that a server watches: this machine, a folder, or a virtual board."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from chipwise.engine.session import Session
from chipwise.errors import InputError
from chipwise.serve.hardware.clock_cap import ClockCap, Write
from chipwise.serve.hardware.hardware import Hardware
from chipwise.serve.hardware.policy import Policy, PolicySettings
from chipwise.serve.hardware.rehearsed_session import Rehearsal
from chipwise.serve.hardware.rung import Variant, ladder
from chipwise.sim import PREFIX, RealTime, VirtualBoard, VirtualFiles, load_spec
from chipwise.telemetry import BoardFiles, BoardMeters, HardwareState, Tree, open_files

_THIS_MACHINE = Path("/")
_NO_TEMPERATURE = "this machine tells no temperature ({why}); --board / has the policy take the safe side"


@dataclass(frozen=True)
class BoardSettings:
    """Which board is watched, and what may be done to it.

    Attributes:
        board: A folder that stands for a machine's root, or ``sim:NAME``; None for this machine, and then its policy
            decides only if it tells a temperature.
        policy: How its policy decides.
        clock_floor: The lowest clock that the policy may set, over the highest: what emergencies need to keep their
            latency. None leaves clocks alone.
        air_c: Temperature of the air around a virtual board.
    """

    board: str | None = None
    policy: PolicySettings = field(default_factory=PolicySettings)
    clock_floor: float | None = None
    air_c: float = 25.0


@dataclass(frozen=True)
class WatchedBoard:
    """A board in view.

    Attributes:
        hardware: What watches it.
        wrap: What becomes of sessions on it: on a virtual board they heat it.
    """

    hardware: Hardware
    wrap: Callable[[Session], Session]


@contextmanager
def open_board(settings: BoardSettings, max_batch: int, variants: Sequence[Variant] = ()) -> Iterator[WatchedBoard]:
    """Watch a board while models are served.

    Args:
        settings: Which board, and what may be done to it.
        max_batch: Requests that run at once when nothing is wrong.
        variants: Other forms of the model that its policy may choose, until others are offered.

    Yields:
        The board.

    Raises:
        InputError: There is no such board, its clock may not be set, or it does not tell what a limit is set for.
    """
    with ExitStack() as stack:
        name = settings.board or str(_THIS_MACHINE)
        wrap: Callable[[Session], Session] = _as_it_is
        if name.startswith(PREFIX):
            board = VirtualBoard(load_spec(name), settings.air_c)
            virtual, rehearsal = VirtualFiles(board), Rehearsal(board)
            live = RealTime(board, rehearsal.activity)
            live.start()
            stack.callback(live.stop)
            hardware, wrap = _hardware(name, virtual, virtual.write, settings, max_batch, variants), rehearsal.wrap
        else:
            root = Path(name)
            files = stack.enter_context(open_files(root))
            hardware = _hardware(name, files, _writer(root), settings, max_batch, variants)
        stack.callback(hardware.stop)
        hardware.start()
        yield WatchedBoard(hardware, wrap)


def _as_it_is(session: Session) -> Session:
    return session


def _hardware(
    name: str, files: BoardFiles, write: Write, settings: BoardSettings, max_batch: int, variants: Sequence[Variant]
) -> Hardware:
    tree = Tree(files)
    meters = BoardMeters(tree)
    cap = None if settings.clock_floor is None else ClockCap(tree, write)
    state = meters.read(0.0)
    temp = state.temp_c
    blind = settings.board is None and temp.value is None
    _check_limits(name, settings.policy, state, blind=blind)
    if blind:
        return Hardware(name, meters, None, why_no_policy=_NO_TEMPERATURE.format(why=temp.unknown), clock_cap=cap)
    ratios = cap.ratios(settings.clock_floor) if cap is not None and settings.clock_floor is not None else ()
    rungs = partial(ladder, max_batch, ratios)
    return Hardware(name, meters, Policy(rungs(variants), settings.policy), rungs=rungs, clock_cap=cap)


def _check_limits(name: str, policy: PolicySettings, state: HardwareState, *, blind: bool) -> None:
    """Check that the limits that were set can be held: whoever sets one relies on it."""
    for option, value in (("--trip", policy.trip_c), ("--peak-watts", policy.peak_w)):
        if blind and value is not None:
            raise InputError(
                f"this machine tells no temperature ({state.temp_c.unknown}), so nothing is decided here",
                where=option,
                remedy="leave it out, or name the board that is to be watched with --board",
            )
    # A sensor that fails now may come back; where there is none, none will.
    if policy.peak_w is not None and state.power_w.value is None and not state.power_w.source:
        raise InputError(
            f"the board {name} tells no power ({state.power_w.unknown})", where="--peak-watts", remedy="leave it out"
        )


def _writer(root: Path) -> Write:
    def write(path: str, content: str) -> None:
        # In place: the kernel's files cannot be replaced.
        (root / path).write_text(f"{content}\n", "utf-8")

    return write
