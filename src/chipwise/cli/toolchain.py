"""`chipwise toolchain`: vendor compilers, each in an environment of its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from chipwise.errors import InputError
from chipwise.toolchain import Environment, default_root, get_toolchain, toolchains
from chipwise.toolchain.doctor import examine
from chipwise.toolchain.environment import State
from chipwise.toolchain.install import install as run_install
from chipwise.toolchain.install import remove as run_remove
from chipwise.toolchain.spec import ToolchainSpec

Command = TypeVar("Command", bound=Callable[..., object])

_FOLDER_HELP = (
    "Folder that holds the toolchains [default: CHIPWISE_TOOLCHAINS, else chipwise/toolchains in your data folder]."
)


def _folder_option(command: Command) -> Command:
    return click.option("--folder", type=click.Path(path_type=Path, file_okay=False), help=_FOLDER_HELP)(command)


@click.group()
def toolchain() -> None:
    """Install vendor compilers, each in a Python environment of its own; nothing of them enters chipwise's."""


@toolchain.command("list")
@_folder_option
def list_(folder: Path | None) -> None:
    """List the toolchains: what for, how large, under what licence, and whether they are installed."""
    for name in toolchains.names():
        environment = _environment(name, folder)
        spec = environment.spec
        click.echo(f"{name}: {spec.purpose} ({environment.state.value})")
        click.echo(f"  chips    {', '.join(spec.chips)}")
        click.echo(f"  packages {', '.join(map(str, spec.pins))}")
        click.echo(f"  size     {_gigabytes(spec.size_bytes)}, Python {_versions(spec)}")
        click.echo(f"  licence  {spec.licence.name}, {spec.licence.url}")
        click.echo(f"  folder   {environment.folder}")


@toolchain.command()
@click.argument("name")
@_folder_option
@click.option("--accept-licence", is_flag=True, help="Accept the licence of a proprietary toolchain.")
@click.option("--python", type=click.Path(path_type=Path), help="The Python to make its environment with.")
@click.option("--verbose", "-v", is_flag=True, help="Show what pip says.")
def install(name: str, folder: Path | None, accept_licence: bool, python: Path | None, verbose: bool) -> None:
    """Install the toolchain NAME, and let it prove itself on a small model.

    An interrupted installation goes on where it stopped; a broken one is repaired.
    """
    environment = _environment(name, folder)
    spec = environment.spec
    click.echo(f"licence of {name}: {spec.licence.name}, {spec.licence.url}")
    if spec.licence.proprietary and not accept_licence and sys.stdin.isatty():
        accept_licence = click.confirm("Do you accept it?", err=True)
        if not accept_licence:
            raise InputError("the licence is not accepted, so nothing was downloaded")
    run_install(environment, accept_licence=accept_licence, python=python, listener=_Printer(verbose))
    click.echo(f"{name} is installed and works: {environment.folder}")


@toolchain.command()
@click.argument("name")
@_folder_option
def doctor(name: str, folder: Path | None) -> int:
    """Say what the toolchain NAME lacks, a line each; ends with 1 if it lacks anything."""
    environment = _environment(name, folder)
    ailments = examine(environment)
    for ailment in ailments:
        click.echo(ailment.what)
    if ailments:
        click.echo(f"to repair it: chipwise toolchain install {name}")
        return 1
    click.echo(f"{name}: Python, {len(environment.spec.pins)} packages, imports and proof are right")
    return 0


@toolchain.command()
@click.argument("name")
@_folder_option
def remove(name: str, folder: Path | None) -> None:
    """Remove the toolchain NAME with all it installed."""
    environment = _environment(name, folder)
    removed = run_remove(environment)
    click.echo(f"{name} is removed" if removed else f"{name} is {State.ABSENT.value} in {environment.folder}")


class _Printer:
    """Says what an installation does: a line a step, and on a terminal what pip does now."""

    def __init__(self, verbose: bool) -> None:
        self._verbose = verbose
        self._live = sys.stderr.isatty()
        self._start = time.monotonic()
        self._first_bytes: int | None = None

    def step(self, name: str, done_bytes: int, total_bytes: int) -> None:
        self._clear()
        if self._first_bytes is None:
            self._first_bytes = done_bytes
        click.echo(f"{done_bytes * 100 // total_bytes:3d} %  {name}{self._left(done_bytes, total_bytes)}")

    def line(self, text: str) -> None:
        if self._verbose:
            click.echo(f"       {text}")
        elif self._live:
            self._clear()
            click.echo(f"       {text[:70]}", nl=False, err=True)

    def _left(self, done_bytes: int, total_bytes: int) -> str:
        fresh_bytes = done_bytes - (self._first_bytes or 0)
        if fresh_bytes <= 0 or done_bytes >= total_bytes:
            return ""
        left_s = (time.monotonic() - self._start) / fresh_bytes * (total_bytes - done_bytes)
        return f", about {left_s:.0f} s left"

    def _clear(self) -> None:
        if self._live:
            click.echo("\r\033[K", nl=False, err=True)


def _environment(name: str, folder: Path | None) -> Environment:
    return Environment(get_toolchain(name), folder.expanduser().absolute() if folder else default_root())


def _gigabytes(size_bytes: int) -> str:
    return f"about {size_bytes / 1e9:.1f} GB"


def _versions(spec: ToolchainSpec) -> str:
    return " or ".join(f"{major}.{minor}" for major, minor in spec.pythons)
