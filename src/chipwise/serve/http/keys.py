"""Keys: who may ask, and how urgently."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from chipwise.errors import InputError
from chipwise.files import read_bounded, sha256_bytes
from chipwise.serve.http.urgency import PriorityField
from chipwise.serve.request.priority import Priority

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MAX_BYTES = 1 << 20
_SHA256 = r"^[0-9a-f]{64}$"
_REMEDY = "see docs/serving.md for its form"


@dataclass(frozen=True)
class Client:
    """Whom a request comes from.

    Attributes:
        name: Its name; clients share the model evenly.
        ceiling: The most urgent priority it may ask for.
        admin: Whether it may exchange the model.
    """

    name: str = ""
    ceiling: Priority = Priority.EMERGENCY
    admin: bool = False

    @property
    def usual(self) -> Priority:
        """The priority of a request that names none."""
        return max(Priority.NORMAL, self.ceiling)


ANYONE = Client()
"""Every client of a server without keys."""


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    client: Annotated[str, Field(min_length=1, max_length=100)]
    key: Annotated[str, Field(min_length=16, max_length=1000)] | None = None
    key_sha256: (
        Annotated[str, Field(pattern=_SHA256), BeforeValidator(lambda v: v.lower() if isinstance(v, str) else v)] | None
    ) = None
    ceiling: PriorityField = Priority.INTERACTIVE
    admin: bool = False


class _File(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    keys: Annotated[list[_Entry], Field(min_length=1)]


@dataclass(frozen=True)
class Keys:
    """The keys of a server.

    Attributes:
        clients: Each key's client, by the key's SHA-256: looking it up tells nothing of how nearly right a key is.
    """

    clients: Mapping[str, Client]

    def client(self, key: str) -> Client | None:
        """Whose key it is; None if it is nobody's."""
        return self.clients.get(sha256_bytes(key.encode("utf-8", "surrogateescape")))


def read_keys(path: Path) -> Keys:
    """Read a file of keys.

    Raises:
        InputError: It cannot be read, is no such file, or holds one key twice.
    """
    where = str(path)
    data = read_bounded(path, _MAX_BYTES)
    try:
        entries = _File.model_validate(_toml(data, where)).keys
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{place}: {first['msg']}", where=where, remedy=_REMEDY) from e
    clients: dict[str, Client] = {}
    for entry in entries:
        if (entry.key is None) == (entry.key_sha256 is None):
            raise InputError(f"the client {entry.client!r} needs either key or key_sha256", where=where, remedy=_REMEDY)
        digest = entry.key_sha256 or sha256_bytes((entry.key or "").encode())
        if digest in clients:
            raise InputError(
                f"{clients[digest].name!r} and {entry.client!r} have the same key",
                where=where,
                remedy="give each its own",
            )
        clients[digest] = Client(entry.client, entry.ceiling, entry.admin)
    return Keys(clients)


def _toml(data: bytes, where: str) -> Any:
    try:
        return tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise InputError(f"no TOML ({e})", where=where, remedy=_REMEDY) from e
