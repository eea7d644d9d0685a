"""Rules about memory."""

from __future__ import annotations

from collections.abc import Iterator

from chipwise.check.check_input import CheckInput
from chipwise.check.memory import MemoryNeed, memory_need
from chipwise.check.rule import Hit, rule
from chipwise.target.units import human

# The system, the runtime and buffers take the rest; below a quarter of free memory admission starts to fail.
_COMFORT = 0.75


@rule
def memory(given: CheckInput) -> Iterator[Hit]:
    """Weights, KV cache and activations do not fit the target's memory.

    Why: The kernel ends the process, on the device, under load.

    Limit: Memory of the board, else of the chip, else the most that can be attached to it. A quarter of it is left
    to the system: that share is an assumption.

    Remedy: Take a recipe with fewer bits, a shorter context, fewer streams, or a board with more memory.
    """
    limit = given.target.memory_bytes
    if limit is None:
        return
    need = memory_need(given)
    share = need.total_bytes / limit.value
    if share <= _COMFORT:
        return
    yield Hit(
        "error" if share > 1 else "warning",
        given.name,
        f"{human(need.total_bytes, 'B')}: {_parts(given, need)}",
        f"{limit.text()} ({_COMFORT:.0%} without the system's share)",
        f"{share:.0%} of {given.target.name}'s memory",
    )


@rule
def memory_unknown(given: CheckInput) -> Iterator[Hit]:
    """Whether the model fits cannot be said, for the target's memory is not known.

    Why: Most boards with this chip differ in memory, so the catalogue leaves it out.

    Limit: Memory of the board or the chip, where a source states it.

    Remedy: Describe your board in a catalogue file of your own, with its memory.
    """
    if given.target.memory_bytes is None:
        need = memory_need(given)
        yield Hit("info", given.name, f"{human(need.total_bytes, 'B')}: {_parts(given, need)}", "unknown")


def _parts(given: CheckInput, need: MemoryNeed) -> str:
    parts = [f"weights {human(need.weights_bytes, 'B')}"]
    if need.kv_bytes:
        parts.append(f"KV cache {human(need.kv_bytes, 'B')} for {given.n_streams} x {given.context} tokens")
    if need.activations_bytes:
        parts.append(f"activations {human(need.activations_bytes, 'B')} (estimated)")
    return ", ".join(parts)
