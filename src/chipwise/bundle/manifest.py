"""Manifest: what a bundle holds, as its manifest.json says it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from chipwise import __version__
from chipwise.bundle.entries import (
    EngineSpec,
    Fallback,
    FileEntry,
    GraphTest,
    ModelInfo,
    Role,
    SelfTest,
    TensorEntry,
    strict,
)
from chipwise.errors import BundleError
from chipwise.report import Verdict

FORMAT_VERSION = 4
"""The newest format this version reads. A bundle is written in the oldest that holds it: 2 brought the fallback, 3 the
variants, 4 graphs of several shapes."""

_FIRST_VERSION, _FALLBACK_VERSION, _VARIANTS_VERSION, _SHAPES_VERSION = 1, 2, 3, 4

TOKENIZER = "tokenizer"
SPECIAL_TOKENS = "special_tokens"
CHAT_TEMPLATE = "chat_template"
GRAPH = "graph"
"""Role of the one graph of a bundle that holds no decoder."""

TEST_INPUTS = "self_test_inputs"
TEST_OUTPUTS = "self_test_outputs"
OWN_ROLES = frozenset({TOKENIZER, SPECIAL_TOKENS, CHAT_TEMPLATE, TEST_INPUTS, TEST_OUTPUTS})
"""Roles of files that are read by chipwise; all others are the engine's, or the fallback's."""

FALLBACK_PREFIX = "fallback."
"""What the roles of the fallback's files begin with."""

VARIANT_NAME = r"^[a-z][a-z0-9-]{0,31}$"
"""What a variant may be called: its documents are its name, ``_`` and their own."""

_AGAIN = "copy or build the bundle again"

# Both patterns admit a bare file name only: no folder, no "..", nothing hidden.
_STORED_NAME = re.compile(r"[0-9a-f]{64}(\.[a-z0-9_]{1,16}){0,3}")
DocumentName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}(\.[a-z0-9]{1,8}){1,2}$")]
VariantName = Annotated[str, Field(pattern=VARIANT_NAME)]


@strict
@dataclass(frozen=True)
class Manifest:
    """All that is known of a bundle.

    Attributes:
        name: A short name for people, which the server gives as the model's.
        target: Name of the target it was built for.
        engine: The runtime.
        model: The model it was built from.
        self_test: What is run before a decoder serves; None for a bundle that holds none.
        graph_test: What is run before a plain graph is used; None for a bundle that holds none.
        tensors: The weights by name.
        verdicts: What verification said of it.
        files: The files by role.
        fallback: The engine that goes on where the first one fails; None if the bundle holds none.
        variants: Other forms of the same model, by name: each as the manifest of a bundle whose files lie among this
            one's. It has no documents, fallback or variants of its own.
        documents: Files for people (``report.json``, ``report.html``), by name. A device may lack them; one that
            is there must be unchanged.
        created: When it was written, ISO 8601 in UTC.
        chipwise_version: The version that wrote it.
        format_version: Version of this format.
    """

    name: Annotated[str, Field(min_length=1, max_length=200)]
    target: str
    engine: EngineSpec
    model: ModelInfo
    self_test: SelfTest | None = None
    graph_test: GraphTest | None = None
    tensors: dict[str, TensorEntry] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    files: dict[Role, FileEntry] = field(default_factory=dict)
    documents: dict[DocumentName, FileEntry] = field(default_factory=dict)
    fallback: Fallback | None = None
    variants: dict[VariantName, Manifest] = field(default_factory=dict)
    created: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))
    chipwise_version: str = __version__
    format_version: int = _FIRST_VERSION

    def __post_init__(self) -> None:
        """Take the version that holds what there is."""
        shapes = self.graph_test is not None and self.graph_test.shapes > 1
        least = (
            _SHAPES_VERSION
            if shapes
            else _VARIANTS_VERSION
            if self.variants
            else _FIRST_VERSION
            if self.fallback is None
            else _FALLBACK_VERSION
        )
        object.__setattr__(self, "format_version", max(least, self.format_version))

    @property
    def passed(self) -> bool:
        """Whether every verdict passed."""
        return all(verdict.passed for verdict in self.verdicts)

    @property
    def emulates(self) -> str | None:
        """Name of the chip whose arithmetic the graphs emulate; None if they are what is deployed.

        Only such graphs forbid their engine to make integer operators of their rounding.
        """
        return self.target if self.engine.options.get("fuse_qdq") is False else None

    @property
    def report_sha256(self) -> str | None:
        """Digest of the report of its verification, if it came with one."""
        entry = self.documents.get("report.json")
        return entry.sha256 if entry else None

    @property
    def engine_files(self) -> dict[Role, FileEntry]:
        """The files that the engine opens, by role."""
        return {role: entry for role, entry in self.files.items() if is_engine_role(role)}

    @property
    def fallback_files(self) -> dict[Role, FileEntry]:
        """The files that the fallback opens, by the role that its engine knows."""
        return {
            role.removeprefix(FALLBACK_PREFIX): entry
            for role, entry in self.files.items()
            if role.startswith(FALLBACK_PREFIX)
        }

    @property
    def stored_files(self) -> dict[str, FileEntry]:
        """All files that belong to it, its variants' too, by the name they are stored under."""
        manifests = (self, *self.variants.values())
        return {entry.file: entry for manifest in manifests for entry in manifest.files.values()}

    def to_json(self) -> bytes:
        """The content of manifest.json. What a format has no word for is left out."""
        left_out: dict[str, Any] = {} if self.fallback else {"fallback": True}
        left_out["variants"] = {"__all__": {"fallback", "variants"}} if self.variants else True
        if self.graph_test is not None and self.graph_test.shapes == 1:
            left_out["graph_test"] = {"shapes"}
        return _ADAPTER.dump_json(self, indent=1, exclude=left_out) + b"\n"

    def to_dict(self) -> dict[str, Any]:
        """The same as plain lists, dicts and numbers."""
        fields: dict[str, Any] = json.loads(self.to_json())
        return fields

    def check(self, *, where: str) -> None:
        """Check that the parts agree with each other.

        Raises:
            BundleError: A tensor lies in no file or past its end, a stored name is not its digest, or a variant is
                no decoder, or holds what only a bundle does.
        """
        for name, variant in self.variants.items():
            if variant.self_test is None or variant.fallback or variant.variants or variant.documents:
                raise BundleError(f"variant {name} is no plain decoder", where=where, remedy=_AGAIN)
            variant.check(where=f"{where}, variant {name}")
        for role, entry in self.files.items():
            if not _STORED_NAME.fullmatch(entry.file) or entry.file.split(".")[0] != entry.sha256:
                raise BundleError(
                    f"file of role {role} has the name {entry.file!r}, not its digest", where=where, remedy=_AGAIN
                )
        for name, document in self.documents.items():
            if document.file != name:
                raise BundleError(f"document {name} has the name {document.file!r}", where=where, remedy=_AGAIN)
        shapes = range(self.graph_test.shapes if self.graph_test is not None else 1)
        tested = [of_shape(role, shape) for shape in shapes for role in (TEST_INPUTS, TEST_OUTPUTS)]
        missing = [role for role in (GRAPH, *tested) if role not in self.files]
        if self.graph_test is not None and missing:
            raise BundleError(f"a graph is tested, but no file has the role {missing[0]!r}", where=where, remedy=_AGAIN)
        if (self.fallback is None) != (not self.fallback_files):
            raise BundleError("a fallback without files, or files without one", where=where, remedy=_AGAIN)
        for name, tensor in self.tensors.items():
            if tensor.role not in self.files:
                raise BundleError(
                    f"tensor {name} lies in {tensor.role!r}, which is no file's role", where=where, remedy=_AGAIN
                )
            end, size = (tensor.offset_bytes or 0) + (tensor.bytes or 0), self.files[tensor.role].bytes
            if end > size:
                raise BundleError(
                    f"tensor {name} ends at byte {end} of {size} in {tensor.role!r}", where=where, remedy=_AGAIN
                )

    @classmethod
    def from_json(cls, data: bytes, *, where: str) -> Manifest:
        """Read a manifest.json.

        Args:
            data: Its content.
            where: Its path, for messages.

        Raises:
            BundleError: It is no JSON, of a newer format, or a field is missing, unknown or of the wrong type.
        """
        _check_version(data, where)
        try:
            manifest = _ADAPTER.validate_json(data)
        except ValidationError as e:
            first = e.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"]) or "the whole"
            raise BundleError(f"field {place}: {first['msg']}", where=where, remedy=_AGAIN) from e
        manifest.check(where=where)
        return manifest


def is_engine_role(role: str) -> bool:
    """Whether files of a role are for the bundle's engine."""
    return role not in OWN_ROLES and not role.startswith((FALLBACK_PREFIX, f"{TEST_INPUTS}.", f"{TEST_OUTPUTS}."))


def of_shape(role: str, shape: int) -> str:
    """The role of a file of the self-test of one of a graph's shapes, counted from 0."""
    return role if not shape else f"{role}.{shape}"


def _check_version(data: bytes, where: str) -> None:
    try:
        fields = json.loads(data)
    except ValueError as e:  # UnicodeDecodeError is one, too
        raise BundleError(f"not JSON ({e})", where=where, remedy=_AGAIN) from e
    except RecursionError as e:
        raise BundleError("nested too deeply", where=where, remedy=_AGAIN) from e
    version = fields.get("format_version") if isinstance(fields, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BundleError("not a bundle's manifest: it has no format_version", where=where, remedy=_AGAIN)
    if version > FORMAT_VERSION:
        raise BundleError(
            f"made by a newer chipwise (format {version}, this one reads up to {FORMAT_VERSION})",
            where=where,
            remedy="upgrade: pip install -U chipwise",
        )


_ADAPTER = TypeAdapter(Manifest)
