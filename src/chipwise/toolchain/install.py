"""install and remove: an environment made step by step, going on where it stopped, repaired where it broke."""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from chipwise.errors import InputError, OutputError, ToolchainError
from chipwise.files import require_free, writing
from chipwise.toolchain.doctor import Ailment, examine_imports, examine_proof, examine_versions
from chipwise.toolchain.environment import Environment
from chipwise.toolchain.log import NewLines, joined, tail, telling
from chipwise.toolchain.process import clean_environment, run_process
from chipwise.toolchain.pythons import find_python
from chipwise.toolchain.runners import WATCHED
from chipwise.toolchain.spec import ToolchainSpec
from chipwise.toolchain.stamp import Stamp

_STEP_TIMEOUT_S = 3 * 3600.0
_MAX_LOG_BYTES = 256 << 20
_PIP = ("pip", "--no-input", "--disable-pip-version-check", "--no-color", "install", "--progress-bar", "off")


class InstallListener(Protocol):
    """Hears how an installation goes on."""

    def step(self, name: str, done_bytes: int, total_bytes: int) -> None:
        """A step begins; so many bytes of all that will lie on disk are there already."""
        ...

    def line(self, text: str) -> None:
        """The installer says what it does."""
        ...


class _Quiet:
    def step(self, name: str, done_bytes: int, total_bytes: int) -> None:
        pass

    def line(self, text: str) -> None:
        pass


def install(
    environment: Environment,
    *,
    accept_licence: bool = False,
    python: Path | None = None,
    listener: InstallListener | None = None,
) -> None:
    """Install a toolchain into its own environment and let it prove itself.

    An interrupted installation goes on; a broken one is repaired; a sound one is left as it is.

    Args:
        environment: Where to.
        accept_licence: Whether the user accepts a proprietary licence; nothing is downloaded without.
        python: The interpreter to make it with; found if None.
        listener: Hears the progress.

    Raises:
        InputError: The licence is not accepted, this machine is of another kind, or there is no fitting Python.
        OutputError: Too little space, or the folder is not writable, in use, or holds something else.
        ToolchainError: pip fails, or what it installed fails its proof.
    """
    spec, said = environment.spec, listener or _Quiet()
    _require_machine(spec)
    if spec.licence.proprietary and not accept_licence:
        raise InputError(
            f"the licence of {spec.name} is not accepted: {spec.licence.name}, {spec.licence.url}",
            remedy="read it and give --accept-licence",
        )
    with _locked(environment):
        stamp = _sound_part(environment, said)
        if stamp.proven:
            return
        if not stamp.made:
            stamp = _make(environment, python, said)
        stamp = _run_steps(environment, stamp, said)
        said.step("proof", spec.size_bytes, spec.size_bytes)
        ailments = examine_versions(environment) or examine_imports(environment) or examine_proof(environment)
        if ailments:
            raise _unsound(environment, ailments)
        replace(stamp, proven=True).write(environment.stamp_file)


def remove(environment: Environment) -> bool:
    """Remove a toolchain's environment, whole or half; False if there was none.

    Raises:
        OutputError: The folder is in use, not writable, or no environment.
    """
    if not (environment.folder.exists() or environment.folder.is_symlink() or environment.stamp_file.exists()):
        return False
    with _locked(environment):
        _clear(environment)
    shutil.rmtree(environment.temporary_folder, ignore_errors=True)
    for file in (environment.stamp_file, environment.log_file, environment.lock_file):
        file.unlink(missing_ok=True)
    return True


def _require_machine(spec: ToolchainSpec) -> None:
    machine = platform.machine()
    if machine not in spec.machines:
        raise InputError(
            f"the toolchain {spec.name} does not run on {machine}",
            remedy=f"install it on a machine of type {' or '.join(spec.machines)}",
        )


def _sound_part(environment: Environment, said: InstallListener) -> Stamp:
    """What is done already and still right: the steps before the first whose packages are not what they should be."""
    stamp = Stamp.read(environment.stamp_file)
    if stamp is None:
        # Perhaps made by hand: what is right need not be installed again.
        every = tuple(step.pip_arguments() for step in environment.spec.steps)
        stamp = Stamp(made=True, done=every, proven=True) if environment.python.exists() else Stamp()
    if not stamp.made or not environment.python.exists():
        return Stamp()
    said.line("looking at what is there")
    ailments = examine_versions(environment)
    wrong = {ailment.package for ailment in ailments}
    if None in wrong:
        return Stamp()  # its Python does not run or is of another version
    sound = []
    for step, done in zip(environment.spec.steps, stamp.done, strict=False):
        if step.pip_arguments() != done or any(pin.package in wrong for pin in step.pins):
            break
        sound.append(done)
    whole = len(sound) == len(environment.spec.steps)
    if whole and (examine_imports(environment) or examine_proof(environment)):
        return Stamp()  # every version is right and it does not work: files are gone or altered
    return replace(stamp, done=tuple(sound), proven=whole)


def _make(environment: Environment, python: Path | None, said: InstallListener) -> Stamp:
    spec = environment.spec
    interpreter = find_python(spec.pythons, python)
    require_free(environment.root, spec.size_bytes)
    said.step("Python", 0, spec.size_bytes)
    _clear(environment)
    Stamp().write(environment.stamp_file)
    with writing(environment.log_file):
        environment.log_file.write_bytes(b"")
    _run(environment, interpreter, ["venv", str(environment.folder)], "Python", said)
    stamp = Stamp(made=True)
    stamp.write(environment.stamp_file)
    return stamp


def _run_steps(environment: Environment, stamp: Stamp, said: InstallListener) -> Stamp:
    steps = environment.spec.steps
    have = sum(step.size_bytes for step in steps[: len(stamp.done)])
    require_free(environment.root, environment.spec.size_bytes - have)
    for step in steps[len(stamp.done) :]:
        said.step(step.name, have, environment.spec.size_bytes)
        arguments = step.pip_arguments()
        # What an interrupted pip left may look whole.
        again = ["--force-reinstall"] if stamp.started == arguments else []
        stamp = replace(stamp, started=arguments, proven=False)
        stamp.write(environment.stamp_file)
        _run(environment, environment.python, [*_PIP, *again, *arguments], step.name, said)
        stamp = replace(stamp, started=None, done=(*stamp.done, arguments))
        stamp.write(environment.stamp_file)
        have += step.size_bytes
    return stamp


def _run(environment: Environment, python: Path, module: list[str], name: str, said: InstallListener) -> None:
    log = environment.log_file
    lines = NewLines(log, log.stat().st_size if log.exists() else 0)

    def tell() -> None:
        for line in lines.read():
            said.line(line)

    # pip unpacks on the disk whose space was checked, and leaves nothing behind when it is killed.
    temporary = environment.temporary_folder
    shutil.rmtree(temporary, ignore_errors=True)
    with writing(temporary):
        temporary.mkdir()
    try:
        ended = run_process(
            [str(python), "-I", str(WATCHED), *module],
            folder=environment.root,
            stdout=log,
            env={**clean_environment(), "TMPDIR": str(temporary)},
            timeout_s=_STEP_TIMEOUT_S,
            max_log_bytes=_MAX_LOG_BYTES,
            on_poll=tell,
        )
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    if ended.stopped is not None or ended.status != 0:
        last = tail(log)
        why = joined(telling(last, "^ERROR") or last)
        how = ended.stopped or f"ended with status {ended.status}"
        raise ToolchainError(
            f"installing {environment.spec.name} failed at {name!r}: it {how}: {why}",
            where=str(log),
            remedy="mend that and run the command again: it goes on where it stopped",
            log_tail=last,
        )


def _unsound(environment: Environment, ailments: list[Ailment]) -> ToolchainError:
    return ToolchainError(
        f"{environment.spec.name} is installed but does not work: {'; '.join(ailment.what for ailment in ailments)}",
        where=str(environment.folder),
        remedy=f"run `chipwise toolchain install {environment.spec.name}` again, which repairs it",
    )


def _clear(environment: Environment) -> None:
    """Remove the environment's folder; refuse if it is none of ours."""
    folder = environment.folder
    if folder.is_symlink():
        raise OutputError("a link, not a folder", where=str(folder), remedy="remove it, or choose another --folder")
    if not folder.exists():
        return
    if not (environment.stamp_file.exists() or (folder / "pyvenv.cfg").is_file()):
        raise OutputError("holds something else", where=str(folder), remedy="choose another --folder")
    with writing(folder):
        shutil.rmtree(folder)


@contextmanager
def _locked(environment: Environment) -> Iterator[None]:
    """Keep others from installing or removing the same toolchain meanwhile."""
    with writing(environment.root):
        environment.root.mkdir(parents=True, exist_ok=True)
        fd = os.open(environment.lock_file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            raise OutputError(
                "another command installs or removes this toolchain",
                where=str(environment.folder),
                remedy="wait for it",
            ) from e
        yield
    finally:
        with suppress(OSError):
            os.close(fd)
