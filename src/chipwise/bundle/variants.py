"""Variants: putting another form of the same model into a bundle, and taking it out again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from chipwise.bundle.bundle import Bundle, open_bundle
from chipwise.bundle.entries import FileEntry
from chipwise.bundle.layout import FILES
from chipwise.bundle.manifest import (
    CHAT_TEMPLATE,
    FALLBACK_PREFIX,
    SPECIAL_TOKENS,
    TOKENIZER,
    VARIANT_NAME,
    Manifest,
)
from chipwise.bundle.quality_cost import quality_cost
from chipwise.bundle.writer import BundleWriter
from chipwise.errors import BundleError, InputError

_SAME_MODEL = "build it from the same model, for the same target"
# What must be the same, and what to call it.
_SHARED_FILES = {TOKENIZER: "tokenizer", SPECIAL_TOKENS: "special tokens", CHAT_TEMPLATE: "chat template"}


def add_variant(path: Path, other: Path, name: str) -> Bundle:
    """Put the model of another bundle into a bundle, as a variant of its own.

    Files that both have are stored once. The bundle is replaced by the new one when that is whole; the other one is
    left as it is. A fallback of the other's is left out: the bundle's own stands in for all forms.

    Args:
        path: The bundle.
        other: The other form of the same model, built and verified.
        name: What the variant is to be called.

    Returns:
        The bundle with its variant.

    Raises:
        InputError: The name is none, or taken.
        BundleError: One of both is not sound, or they are not forms of one model; or the other was not verified, did
            not pass its gate, or holds variants itself.
        OutputError: The disk does not take it. The bundle is as it was.
    """
    if not re.fullmatch(VARIANT_NAME, name):
        raise InputError(
            f"a variant cannot be called {name!r}", where="--as", remedy="take small letters, digits and -, 32 at most"
        )
    bundle, added = open_bundle(path), open_bundle(other)
    if name in bundle.manifest.variants:
        remedy = f"take another name, or `chipwise bundle remove-variant {path} {name}` first"
        raise InputError(f"it has a variant {name!r} already", where=str(path), remedy=remedy)
    _refuse_unlike(bundle, added)
    _refuse_unmeasured(added)
    files = {role: entry for role, entry in added.manifest.files.items() if not role.startswith(FALLBACK_PREFIX)}
    variant = replace(added.manifest, files=files, documents={}, fallback=None, format_version=1)
    manifest = replace(bundle.manifest, variants={**bundle.manifest.variants, name: variant})
    documents = {
        f"{name}_{document}": (added.path / document, entry) for document, entry in added.manifest.documents.items()
    }
    return _rewrite(bundle, manifest, added.path / FILES, documents)


def remove_variant(path: Path, name: str) -> Bundle:
    """Take a variant out of a bundle, and all files that only it needs.

    Returns:
        The bundle without it.

    Raises:
        InputError: It has no such variant.
        BundleError: The bundle is not sound.
        OutputError: The disk does not take it. The bundle is as it was.
    """
    bundle = open_bundle(path)
    bundle.variant(name)
    left = {other: variant for other, variant in bundle.manifest.variants.items() if other != name}
    documents = {
        document: entry
        for document, entry in bundle.manifest.documents.items()
        if not document.startswith(f"{name}_")
    }  # fmt: skip
    # An older format may do again.
    manifest = replace(bundle.manifest, variants=left, documents=documents, format_version=1)
    return _rewrite(bundle, manifest, bundle.path / FILES, {})


def _rewrite(
    bundle: Bundle, manifest: Manifest, others: Path, documents: Mapping[str, tuple[Path, FileEntry]]
) -> Bundle:
    """Replace a bundle by what a manifest says, of its own files and those in a folder of another one."""
    own = bundle.manifest.stored_files
    with BundleWriter(bundle.path, overwrite=True) as writer:
        for stored, entry in manifest.stored_files.items():
            mine = stored in own
            writer.take(entry, (bundle.path / FILES if mine else others) / stored, link=mine)
        for name, entry in manifest.documents.items():
            writer.take_document(name, entry, bundle.path / name, link=True)
        for name, (source, entry) in documents.items():
            writer.take_document(name, entry, source, link=False)
        writer.commit(manifest)
    return open_bundle(bundle.path)


def _refuse_unlike(bundle: Bundle, added: Bundle) -> None:
    """Refuse what answers other requests than the bundle does, or answers them no differently."""
    ours, theirs, where = bundle.manifest, added.manifest, str(added.path)
    for manifest, place in ((ours, str(bundle.path)), (theirs, where)):
        if manifest.self_test is None or TOKENIZER not in manifest.files:
            raise BundleError("it holds no language model", where=place, remedy="only these have variants")
    for role, called in _SHARED_FILES.items():
        if ours.files.get(role) != theirs.files.get(role):
            raise BundleError(f"another {called} than the bundle's", where=where, remedy=_SAME_MODEL)
    for what, mine, other in (
        ("target", ours.target, theirs.target),
        ("vocabulary size", *(manifest.model.config.get("vocab_size") for manifest in (ours, theirs))),
        ("longest context", *(manifest.model.config.get("max_positions") for manifest in (ours, theirs))),
    ):
        if mine != other:
            raise BundleError(
                f"its {what} is {_said(other)}, the bundle's {_said(mine)}", where=where, remedy=_SAME_MODEL
            )
    if theirs.variants:
        raise BundleError("it holds variants itself", where=where, remedy="add the bundles they were made of")
    if ours.engine == theirs.engine and ours.engine_files == theirs.engine_files:
        raise BundleError("the same model in the same form", where=where, remedy="build it with another --recipe")


def _refuse_unmeasured(added: Bundle) -> None:
    """Refuse what costs nobody knows how much, or too much."""
    where, manifest = str(added.path), added.manifest
    if quality_cost(manifest.verdicts) is None:
        raise BundleError(
            "what it costs in quality was not measured",
            where=where,
            remedy="build it with `chipwise build`, which does",
        )
    if not manifest.passed:
        failed = next(verdict.line() for verdict in manifest.verdicts if not verdict.passed)
        raise BundleError(f"it did not pass its gate ({failed})", where=where, remedy="build it with another --recipe")


def _said(value: Any) -> str:
    return "unknown" if value is None else str(value)
