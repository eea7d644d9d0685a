"""HostSpeed: the figures of this machine that must be measured, and the cache they are kept in."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

import onnxruntime
from pydantic import TypeAdapter, ValidationError

from chipwise import __version__
from chipwise.errors import InputError, OutputError
from chipwise.files import read_bounded, write_atomic
from chipwise.target.host.bandwidth import read_bandwidth
from chipwise.target.host.machine import Machine
from chipwise.target.host.matmul import matmul_throughput
from chipwise.target.host.opset import opset_max
from chipwise.target.quantity import Quantity

Measure = Literal["never", "once", "again"]

CACHE_VARIABLE = "CHIPWISE_CACHE"
"""Names the cache's folder, before XDG does."""


@dataclass(frozen=True)
class HostSpeed:
    """What was measured.

    Attributes:
        key: The machine and versions it was measured on.
        read_bps: Reads of main memory by all usable cores.
        fp32_ops: Operations a second of a float32 matrix product.
        int8_ops: The same of an int8 product.
        opset_max: The highest ONNX opset of the installed ONNX Runtime.
        load: Programs that wanted a core, a core, while it was measured (1 minute's average).
    """

    key: str
    read_bps: Quantity
    fp32_ops: Quantity
    int8_ops: Quantity
    opset_max: Quantity | None
    load: float


_STORED = TypeAdapter(HostSpeed)
_MOST_BYTES = 1 << 16
_BUSY = 0.75


def host_speed(machine: Machine, folder: Path, measure: Measure = "once") -> HostSpeed | None:
    """The machine's speed, from the cache or measured (about 3 seconds) and then cached.

    What was measured on a busy machine is measured anew once it is quieter.

    Args:
        machine: The machine.
        folder: The cache's folder, made if absent. One that cannot be written costs a measurement each time.
        measure: ``never`` (None if not cached), ``once`` (only if not cached), ``again``.
    """
    key = _key(machine)
    path = folder / f"host-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    load = _load(machine)
    cached = None if measure == "again" else _cached(path, key)
    if measure == "never" or (cached is not None and not (cached.load > _BUSY and load < cached.load / 2)):
        return cached
    today = datetime.now(timezone.utc).date().isoformat()
    speed = HostSpeed(
        key=key,
        read_bps=_noted(read_bandwidth(machine, today), load),
        fp32_ops=_noted(matmul_throughput(machine, "fp32", today), load),
        int8_ops=_noted(matmul_throughput(machine, "int8", today), load),
        opset_max=opset_max(today),
        load=load,
    )
    with contextlib.suppress(OSError, OutputError):  # a read-only home: the figures are good all the same
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(asdict(speed)))
    return speed


def cache_folder() -> Path:
    """CHIPWISE_CACHE, else ``$XDG_CACHE_HOME/chipwise``, by default ``~/.cache/chipwise``.

    A relative XDG_CACHE_HOME counts as unset (XDG says so).
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path("~/.cache").expanduser()) / "chipwise"


def _key(machine: Machine) -> str:
    cores = " + ".join(f"{n} {kind}" for kind, n in machine.cpu.clusters.items()) or machine.cpu.model
    return f"{cores}, {machine.threads} threads, chipwise {__version__}, onnxruntime {onnxruntime.__version__}"


def _load(machine: Machine) -> float:
    try:
        return os.getloadavg()[0] / machine.threads
    except OSError:
        return 0.0


def _noted(quantity: Quantity, load: float) -> Quantity:
    if load <= _BUSY:
        return quantity
    busy = f"perhaps too low: the machine was busy ({load:.1f} programs a core)"
    return replace(quantity, note=f"{quantity.note}; {busy}".lstrip("; "))


def _cached(path: Path, key: str) -> HostSpeed | None:
    try:
        speed = _STORED.validate_json(read_bounded(path, _MOST_BYTES), strict=True, extra="forbid")
    except (InputError, ValidationError):  # absent or damaged: measured anew
        return None
    return speed if speed.key == key else None
