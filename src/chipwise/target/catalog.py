"""The catalogue: every known chip, and the boards and chips a user adds."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from chipwise.errors import InputError, UnknownTargetError
from chipwise.target import catalog_file
from chipwise.target.chip import Chip
from chipwise.target.host.detect import NAME as HOST
from chipwise.target.host.detect import detect
from chipwise.target.host.speed import Measure
from chipwise.target.mode import Mode
from chipwise.target.target import Target

ENVIRONMENT = "CHIPWISE_TARGETS"

_BUILTIN = Path(__file__).parent / "catalog"
_COMMON = _BUILTIN / "common"


def names(folders: Sequence[Path] | None = None) -> tuple[str, ...]:
    """The names of all targets in the catalogue, sorted, without ``host``.

    Args:
        folders: The user's own folders of catalogue files, the first one counting most; None for those in
            the environment variable CHIPWISE_TARGETS, separated like PATH.

    Raises:
        InputError: A folder does not exist.
    """
    return tuple(sorted(_files(folders)))


def catalog(folders: Sequence[Path] | None = None) -> dict[str, Target]:
    """All targets of the catalogue by name, each in its default mode, without ``host``.

    Raises:
        InputError: A folder does not exist, or a file in it is wrong.
    """
    files = _files(folders)
    return {name: _load(name, "", files) for name in sorted(files)}


def load_target(name: str, folders: Sequence[Path] | None = None) -> Target:
    """Find a target by its name.

    Args:
        name: ``chip``, ``chip@mode``, a board's name, or ``host`` for the machine this runs on (which is measured
            the first time, within about 3 seconds).
        folders: As for `names`.

    Raises:
        UnknownTargetError: There is no such chip, board or mode.
        InputError: A folder does not exist, or the target's file is wrong.
    """
    if name.strip().lower() == HOST:
        return host()
    base, _, mode = name.strip().lower().partition("@")
    files = _files(folders)
    if base not in files:
        raise UnknownTargetError(f"there is no target {name!r}", remedy=_did_you_mean(name, files))
    return _load(base, mode, files)


def host(measure: Measure = "once") -> Target:
    """The machine this runs on.

    Args:
        measure: Its speed is measured ``once`` and cached, measured ``again``, or ``never`` (then it is unknown if
            it is not in the cache).
    """
    return detect(common=_COMMON, measure=measure)


def _files(folders: Sequence[Path] | None) -> dict[str, Path]:
    remedy = "give a folder that exists, or leave --folder out"
    if folders is None:
        remedy = f"correct {ENVIRONMENT}"
        folders = [Path(part) for part in os.environ.get(ENVIRONMENT, "").split(os.pathsep) if part]
    files: dict[str, Path] = {}
    for folder in (*folders, _BUILTIN):
        if not folder.is_dir():
            raise InputError("is no folder of catalogue files", where=str(folder), remedy=remedy)
        for file in folder.glob("*.toml"):
            files.setdefault(file.stem.lower(), file)
    return files


def _load(name: str, mode: str, files: Mapping[str, Path]) -> Target:
    noun = catalog_file.read(files[name], _COMMON)
    if isinstance(noun, Chip):
        return Target(noun, mode=_mode(noun, mode))
    file = str(files[name])
    if mode:
        raise UnknownTargetError(f"the board {name} has no modes to choose from", where=f"{name}@{mode}")
    chip = catalog_file.read(files[noun.chip], _COMMON) if noun.chip in files else None
    if not isinstance(chip, Chip):
        raise InputError(f"chip: there is no chip {noun.chip!r}", where=file, remedy=_did_you_mean(noun.chip, files))
    return Target(chip, board=noun.board, mode=_mode(chip, noun.mode or ""))


def _mode(chip: Chip, name: str) -> Mode | None:
    if not name:
        return chip.modes[0] if chip.modes else None
    for mode in chip.modes:
        if mode.name == name:
            return mode
    listed = ", ".join(f"{chip.name}@{mode.name}" for mode in chip.modes) or "none"
    raise UnknownTargetError(f"{chip.name} has no mode {name!r}", remedy=f"its modes: {listed}")


def _did_you_mean(name: str, files: Mapping[str, Path]) -> str:
    known = [HOST, *sorted(files)]
    close = difflib.get_close_matches(name.lower(), [*known, *_with_modes(files)], n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{hint}known targets: {', '.join(known)}"


def _with_modes(files: Mapping[str, Path]) -> Iterator[str]:
    for name, path in files.items():
        with suppress(InputError):  # another file's fault is not what is asked about
            noun = catalog_file.read(path, _COMMON)
            yield from (f"{name}@{mode.name}" for mode in getattr(noun, "modes", ()))
