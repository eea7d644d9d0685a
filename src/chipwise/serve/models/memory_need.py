"""How much memory opening a model takes, and whether that is there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from chipwise.bundle import Bundle, FileEntry
from chipwise.bundle.manifest import GRAPH
from chipwise.errors import UnavailableError
from chipwise.telemetry.meminfo import parse_meminfo

# The runtime's own: graphs, arenas, buffers of a step. An assumption, generous for models that fit a board.
_OVERHEAD_BYTES = 64 << 20
# Of a value of KV, in the widest type it is kept in.
_KV_VALUE_BYTES = 4
_MEMINFO = Path("/proc/meminfo")


def need_bytes(bundle: Bundle, n_slots: int, max_context: int, *, with_fallback: bool = False) -> int:
    """Bytes that a bundle's model takes once all its slots are full: an estimate from above.

    Files of the engine, keys and values of each layer and token, and what the runtime needs. Slots take memory only as
    they fill, but then nothing may be missing.

    Args:
        bundle: The bundle, or a variant in one.
        n_slots: KV slots.
        max_context: Tokens a slot holds.
        with_fallback: Whether its fallback is opened, too. Weights in float16 are widened then.
    """
    manifest, config = bundle.manifest, bundle.manifest.model.config
    token = 2 * _KV_VALUE_BYTES
    for name in ("n_layers", "n_kv_heads", "head_dim"):
        # A manifest that does not say so is of no decoder of ours; then the files alone count.
        token *= size if isinstance(size := config.get(name), int) else 0
    opened = token * n_slots * max_context + _OVERHEAD_BYTES
    need = _size(manifest.engine_files.values()) + opened
    if with_fallback and manifest.fallback is not None:
        factor = 2 if manifest.fallback.precision == "fp16" else 1
        need += factor * _size(manifest.fallback_files.values()) + opened
    return need


def refuse_too_large(bundle: Bundle, need: int, free_bytes: float | None) -> None:
    """Refuse a model that does not fit beside the one that is served.

    Args:
        bundle: The bundle, or a variant in one.
        need: What it takes, in bytes.
        free_bytes: What programs can still take; None if nobody knows, and then nothing is refused.

    Raises:
        UnavailableError: It needs more.
    """
    if free_bytes is not None and need > free_bytes:
        raise UnavailableError(
            f"{bundle.manifest.name} needs {need / 1e6:.0f} MB beside the model that is served, "
            f"{free_bytes / 1e6:.0f} MB are free",
            remedy="end what else runs there, or serve a smaller one"
            if GRAPH in bundle.files
            else "serve with a shorter --context or fewer --slots",
        )


def machine_free_bytes() -> float | None:
    """What programs on this machine can still take, in bytes; None if it does not tell."""
    try:
        text = _MEMINFO.read_text("utf-8")
    except OSError:
        return None
    return parse_meminfo(text).available_bytes


def _size(entries: Iterable[FileEntry]) -> int:
    return sum({entry.file: entry.bytes for entry in entries}.values())
