"""Where things lie inside a bundle's folder."""

from __future__ import annotations

MANIFEST = "manifest.json"
MANIFEST_DIGEST = "manifest.sha256"
FILES = "files"

MAX_MANIFEST_BYTES = 64 << 20
"""The largest manifest that is read: some hundred thousand tensors."""


def digest_line(sha256: str) -> bytes:
    """The content of manifest.sha256, as ``sha256sum -c`` reads it."""
    return f"{sha256}  {MANIFEST}\n".encode()
