"""examine: what a toolchain's environment lacks, one Ailment each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chipwise.errors import ToolchainError
from chipwise.toolchain.environment import Environment, State
from chipwise.toolchain.job import job_folder, run_in
from chipwise.toolchain.job_spec import Job
from chipwise.toolchain.runners import PROBE
from chipwise.toolchain.spec import Pin, ToolchainSpec

_PROBE_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Ailment:
    """One thing that is missing or wrong.

    Attributes:
        what: What is found, and what should be.
        package: The package it is about, if it is about one.
    """

    what: str
    package: str | None = None


def examine(environment: Environment) -> list[Ailment]:
    """All that is wrong: Python, each pin, each import, and last the proof, which runs if nothing else is wrong.

    Raises:
        OutputError: The disk is full or not writable.
    """
    if not environment.python.exists():
        return [Ailment(f"{environment.spec.name} is {State.ABSENT.value} in {environment.folder}")]
    found = examine_versions(environment) + examine_imports(environment)
    if environment.state is State.PARTIAL:
        found.insert(0, Ailment(f"{environment.spec.name} is {State.PARTIAL.value}"))
    return found or examine_proof(environment)


def examine_versions(environment: Environment) -> list[Ailment]:
    """Packages that are missing or of another version, and a Python of another version."""
    spec = environment.spec
    packages = [pin.package for pin in spec.pins]
    try:
        values = _values(environment, Job("versions", {"packages": packages}, runner=PROBE, timeout_s=_PROBE_TIMEOUT_S))
    except ToolchainError as e:
        return [Ailment(f"its Python does not run: {e}")]
    return _wrong_python(spec, values["python"]) + _wrong_pins(spec.pins, values["packages"])


def examine_imports(environment: Environment) -> list[Ailment]:
    """Modules that do not import."""
    found = []
    for module in environment.spec.imports:
        # One job each: an import may end the process.
        job = Job("imports", {"modules": [module]}, runner=PROBE, timeout_s=_PROBE_TIMEOUT_S)
        try:
            why = _values(environment, job)["failed"][module]
        except ToolchainError as e:
            why = str(e)
        if why is not None:
            found.append(Ailment(f"{module} does not import: {why}"))
    return found


def examine_proof(environment: Environment) -> list[Ailment]:
    """Whether the toolchain builds and runs a small model rightly."""
    try:
        _values(environment, Job("prove", timeout_s=environment.spec.proof_timeout_s))
    except ToolchainError as e:
        return [Ailment(f"its proof fails: {e}")]
    return []


def _values(environment: Environment, job: Job) -> dict[str, Any]:
    with job_folder(environment, job, keep=None) as folder:
        return run_in(folder, environment, job).values


def _wrong_python(spec: ToolchainSpec, version: str) -> list[Ailment]:
    major, minor, *_ = version.split(".")
    if (int(major), int(minor)) in spec.pythons:
        return []
    known = " or ".join(f"{major}.{minor}" for major, minor in spec.pythons)
    return [Ailment(f"Python {version} is installed, {known} is needed")]


def _wrong_pins(pins: tuple[Pin, ...], versions: dict[str, str | None]) -> list[Ailment]:
    found = []
    for pin in pins:
        version = versions[pin.package]
        if version is None:
            found.append(Ailment(f"{pin.package} is missing, {pin} is needed", pin.package))
        elif not pin.takes(version):
            found.append(Ailment(f"{pin.package} {version} is installed, {pin} is needed", pin.package))
    return found
