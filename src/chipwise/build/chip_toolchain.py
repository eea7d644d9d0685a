"""Which toolchain compiles for a target on this machine, or why none does."""

from __future__ import annotations

from chipwise.build.options import BuildOptions
from chipwise.target import Target
from chipwise.toolchain import Environment, default_root, get_toolchain
from chipwise.toolchain.environment import State

_RKNN = "rknn"


def installed_toolchain(options: BuildOptions, target: Target) -> Environment | None:
    """The toolchain that compiles plain graphs for a target.

    Returns:
        Its environment; None if this version has none for the chip, it is not installed, or the user wants emulation.

    Raises:
        ToolchainError: The package that brings the toolchain fails to load.
    """
    environment = _environment(target)
    if environment is None or options.emulate or environment.state is not State.READY:
        return None
    return environment


def why_emulated(options: BuildOptions, target: Target) -> str:
    """Why a plain graph is not compiled for the target, and what to do about it."""
    environment = _environment(target)
    if environment is None:
        return f"needs the {target.engine} toolkit, which is no part of this version"
    if options.emulate:
        return "--emulate was given"
    return (
        f"needs the {target.engine} toolkit, which is {environment.state.value}: "
        f"`chipwise toolchain install {environment.spec.name}`"
    )


def _environment(target: Target) -> Environment | None:
    if target.engine != _RKNN:
        return None
    spec = get_toolchain(_RKNN)
    return Environment(spec, default_root()) if target.chip.name in spec.chips else None
