"""What a server says of a bundle."""

from __future__ import annotations

from datetime import datetime

from chipwise.bundle import Bundle
from chipwise.errors import BundleError
from chipwise.files import sha256_bytes


def created_s(bundle: Bundle) -> int:
    """When a bundle was written, in seconds since 1970.

    Raises:
        BundleError: It does not say so.
    """
    created = bundle.manifest.created
    try:
        return int(datetime.fromisoformat(created).timestamp())
    except ValueError as e:
        raise BundleError(f"{created!r} is no date", where=str(bundle.path), remedy="build the bundle again") from e


def fingerprint_of(bundle: Bundle) -> str:
    """A name that changes whenever the answers of a bundle's model might."""
    return f"fp_{sha256_bytes(bundle.manifest.to_json())[:10]}"
