"""File sizes as `inspect` lists them, one below the other."""

from __future__ import annotations

_SMALL_BYTES = 100_000


def file_size(n_bytes: int) -> str:
    """Bytes in MB, or KB where MB would show next to nothing; 13 characters, so that columns line up."""
    if n_bytes < _SMALL_BYTES:
        return f"{n_bytes / 1e3:>10.3f} KB"
    return f"{n_bytes / 1e6:>10.3f} MB"
