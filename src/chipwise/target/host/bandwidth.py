"""How fast this machine reads its main memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from chipwise.target.host.machine import Machine
from chipwise.target.host.timing import repeat
from chipwise.target.provenance import Provenance
from chipwise.target.quantity import Quantity

_LEAST_BYTES = 128 << 20
_MOST_BYTES = 1 << 30


def buffer_bytes(machine: Machine) -> int:
    """Bytes to read: twice the last cache, but at most 1 GiB and a quarter of the free memory."""
    wanted = max(_LEAST_BYTES, 2 * max(machine.cache_bytes.values(), default=0))
    free = machine.available_bytes or machine.memory_bytes or _MOST_BYTES
    return min(wanted, _MOST_BYTES, max(free // 4, 1 << 20))


def read_bandwidth(machine: Machine, today: str, budget_s: float = 0.4) -> Quantity:
    """Measure reads of main memory by all usable cores at once.

    Each thread takes the maximum of a float32 array of its own: numpy does that without the interpreter lock, in
    vector instructions, and faster than memory delivers.
    """
    size, threads = buffer_bytes(machine), machine.threads
    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(_filled, [size // threads // 4] * threads))
        timing = repeat(lambda: list(pool.map(np.max, parts)), budget_s)
    source = f"numpy maximum over {size >> 20} MiB, {threads} threads"
    return Quantity(size / timing.best_s, "B/s", Provenance("measured", source, today), timing.note())


def _filled(n: int) -> npt.NDArray[np.float32]:
    # Not zeros: the kernel would map them all to one page, which stays in the cache.
    return np.full(n, 1.0, dtype=np.float32)
