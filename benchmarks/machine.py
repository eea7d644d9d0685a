"""The machine of a run, with its read bandwidth measured by chipwise's own host measurement."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone

from benchmarks.results import MachineFacts
from chipwise.target.host.bandwidth import read_bandwidth
from chipwise.target.host.machine import Machine, look
from chipwise.target.quantity import Quantity

_FEATURES = ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_int8", "asimddp", "i8mm", "sve", "bf16")


def today() -> str:
    """The date, in UTC."""
    return datetime.now(timezone.utc).date().isoformat()


def bandwidth(machine: Machine | None = None) -> Quantity:
    """Reads of main memory by all usable cores, bytes a second; takes about a second."""
    return read_bandwidth(machine or look(), today(), budget_s=1.0)


def facts(*measured: Quantity) -> MachineFacts:
    """The machine, with the best of the bandwidths measured."""
    machine = look()
    best = max(measured, key=lambda quantity: float(quantity.value))
    return MachineFacts(
        cpu=machine.cpu.model,
        cores=machine.threads,
        memory_bytes=machine.memory_bytes,
        cache_bytes=machine.cache_bytes,
        features=tuple(name for name in _FEATURES if name in machine.cpu.features),
        system=f"{platform.system()} {platform.machine()}",
        read_bps=float(best.value),
        read_note=f"{best.provenance.source}; {best.note}",
    )


def load_average() -> float:
    """Programs that wanted a core over the last minute."""
    return os.getloadavg()[0]
