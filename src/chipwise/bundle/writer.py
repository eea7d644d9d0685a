"""BundleWriter: builds a bundle beside its final place and moves it there when it is whole."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from chipwise.bundle.entries import FileEntry
from chipwise.bundle.layout import FILES, MANIFEST, MANIFEST_DIGEST, digest_line
from chipwise.bundle.manifest import CHAT_TEMPLATE, SPECIAL_TOKENS, TOKENIZER, Manifest
from chipwise.bundle.staging import Staging
from chipwise.errors import BundleError, OutputError
from chipwise.files import sha256_bytes, sha256_file, sync, write_atomic, writing
from chipwise.model.chat_template import ChatTemplate
from chipwise.model.tokenizer import Tokenizer


class BundleWriter:
    """Writes one bundle.

    Use it as a context manager: what is added lies in a hidden folder beside ``out_dir`` until ``commit``
    moves the whole into place. Left without ``commit``, or by an exception, it leaves nothing behind, and an
    older bundle at ``out_dir`` stays as it was.

    A graph that names its weights file must name it as ``add_file`` returned it, so weights are added first.
    """

    def __init__(self, out_dir: Path, *, overwrite: bool = False) -> None:
        """Nothing is written before the ``with``.

        Args:
            out_dir: Where the bundle shall lie: no such path yet, an empty folder, or with ``overwrite`` a bundle.
            overwrite: Whether to replace a bundle that lies there. Anything else is never replaced.
        """
        self.out_dir = out_dir
        self._staging = Staging(out_dir)
        self._overwrite = overwrite
        self._files: dict[str, FileEntry] = {}
        self._documents: dict[str, FileEntry] = {}

    def __enter__(self) -> BundleWriter:
        """Make the hidden folder.

        Raises:
            OutputError: ``out_dir`` is taken or not writable, or another build is writing to it.
        """
        refuse_taken(self.out_dir, overwrite=self._overwrite)
        self._staging.open()
        try:
            with writing(self.out_dir):
                (self._staging.path / FILES).mkdir()
        except BaseException:
            self._staging.discard()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove what was not committed."""
        self._staging.discard()

    def scratch(self, name: str) -> Path:
        """A path on the bundle's disk for a large file in the making; ``add_file`` then moves it without copying.

        What is still there at ``commit`` is removed.
        """
        folder = self._staging.path / "scratch"
        with writing(folder):
            folder.mkdir(exist_ok=True)
        return folder / name

    def add_file(self, role: str, path: Path, suffix: str) -> str:
        """Move a finished file into the bundle.

        Args:
            role: What it is for, e.g. ``decoder``; each role is added once.
            path: The file; it is gone afterwards.
            suffix: Ending of the stored name, e.g. ``.onnx``.

        Returns:
            The stored name, by which files of the bundle may name each other.

        Raises:
            OutputError: The role is there already, or the disk is full or not writable.
        """
        self._refuse_twice(role)
        with writing(path):
            entry = _entry(path, suffix)
        with writing(self.out_dir, need_bytes=entry.bytes):
            stored = self._staging.path / FILES / entry.file
            shutil.move(path, stored)
            sync(stored)
        self._files[role] = entry
        return entry.file

    def add_bytes(self, role: str, data: bytes, suffix: str) -> str:
        """Write a small file into the bundle.

        Args:
            role: What it is for; each role is added once.
            data: Its content.
            suffix: Ending of the stored name.

        Returns:
            The stored name.

        Raises:
            OutputError: The role is there already, or the disk is full or not writable.
        """
        self._refuse_twice(role)
        sha256 = sha256_bytes(data)
        entry = FileEntry(sha256 + suffix, len(data), sha256)
        write_atomic(self._staging.path / FILES / entry.file, data)
        self._files[role] = entry
        return entry.file

    def add_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Add what ``Bundle.tokenizer`` reads back.

        Raises:
            OutputError: As ``add_bytes``.
        """
        tokenizer_json, special_json = tokenizer.to_files().values()
        self.add_bytes(TOKENIZER, tokenizer_json, ".json")
        self.add_bytes(SPECIAL_TOKENS, special_json, ".json")

    def add_chat_template(self, template: ChatTemplate) -> None:
        """Add what ``Bundle.chat_template`` reads back.

        Raises:
            OutputError: As ``add_bytes``.
        """
        self.add_bytes(CHAT_TEMPLATE, json.dumps(template.to_dict(), ensure_ascii=False).encode(), ".json")

    def add_document(self, name: str, data: bytes) -> None:
        """Add a file for people, beside the manifest under its own name, e.g. ``report.html``.

        Raises:
            OutputError: A document of that name is there already, or the disk is full or not writable.
        """
        if name in self._documents or name in (MANIFEST, MANIFEST_DIGEST):
            raise OutputError(f"the document {name} is there already", where=str(self.out_dir))
        write_atomic(self._staging.path / name, data)
        self._documents[name] = FileEntry(name, len(data), sha256_bytes(data))

    def take(self, entry: FileEntry, source: Path, *, link: bool) -> None:
        """Take a file of another bundle over under its own name, for whatever roles the manifest gives it.

        Args:
            entry: What it is; one that is there already is not written again.
            source: Where it lies, checked.
            link: Whether both bundles may share it on disk, since the other one is about to go.

        Raises:
            OutputError: The disk is full or not writable.
        """
        stored = self._staging.path / FILES / entry.file
        if not stored.exists():
            _place(source, stored, entry, link=link)

    def take_document(self, name: str, entry: FileEntry, source: Path, *, link: bool) -> None:
        """Take a document of another bundle over; one that is not there is only named.

        Args:
            name: What it is called here.
            entry: What it is.
            source: Where it lies.
            link: As for ``take``.

        Raises:
            OutputError: The disk is full or not writable.
        """
        if source.exists():
            _place(source, self._staging.path / name, entry, link=link)
        self._documents[name] = replace(entry, file=name)

    def path(self, role: str) -> Path:
        """Where a file that was added lies until ``commit``; for opening what was built before it is finished.

        Raises:
            OutputError: No file of that role was added.
        """
        if role not in self._files:
            raise OutputError(f"no file of role {role} was added", where=str(self.out_dir))
        return self._staging.path / FILES / self._files[role].file

    def commit(self, manifest: Manifest) -> Path:
        """Write the manifest and move the bundle into place.

        Args:
            manifest: What the bundle is; what was added is put into its ``files`` and ``documents``.

        Returns:
            The folder of the finished bundle.

        Raises:
            BundleError: The manifest's parts do not agree with each other, or it names a file that was not added.
            OutputError: The disk is full or not writable, or ``out_dir`` was taken meanwhile.
        """
        full = replace(
            manifest, files=manifest.files | self._files, documents=manifest.documents | self._documents
        )  # fmt: skip
        data = full.to_json()
        Manifest.from_json(data, where=str(self.out_dir / MANIFEST))
        staged = self._staging.path
        missing = sorted(name for name in full.stored_files if not (staged / FILES / name).exists())
        if missing:
            raise BundleError("named, but not added", where=str(self.out_dir / FILES / missing[0]))
        with writing(self.out_dir):
            shutil.rmtree(staged / "scratch", ignore_errors=True)
            sync(staged / FILES)
        write_atomic(staged / MANIFEST, data)
        write_atomic(staged / MANIFEST_DIGEST, digest_line(sha256_bytes(data)))
        refuse_taken(self.out_dir, overwrite=self._overwrite)
        self._staging.publish()
        return self.out_dir

    def _refuse_twice(self, role: str) -> None:
        if role in self._files:
            raise OutputError(f"a file of role {role} is there already", where=str(self.out_dir))


def refuse_taken(out_dir: Path, *, overwrite: bool) -> None:
    """Refuse a place that no bundle may be written to, as ``BundleWriter`` does.

    Args:
        out_dir: Where the bundle shall lie.
        overwrite: Whether it may replace a bundle.

    Raises:
        OutputError: Something lies there that is not replaced.
    """
    if not os.path.lexists(out_dir):
        return
    with writing(out_dir):
        if out_dir.is_dir() and not out_dir.is_symlink() and not any(out_dir.iterdir()):
            return
    if not (out_dir.is_dir() and not out_dir.is_symlink() and (out_dir / MANIFEST).is_file()):
        raise OutputError("exists and is no bundle", where=str(out_dir), remedy="choose a folder that is not there yet")
    if not overwrite:
        raise OutputError(
            "a bundle is there already",
            where=str(out_dir),
            remedy="choose another folder, or replace it with --overwrite",
        )


def _entry(path: Path, suffix: str) -> FileEntry:
    sha256 = sha256_file(path)
    return FileEntry(sha256 + suffix, path.stat().st_size, sha256)


def _place(source: Path, target: Path, entry: FileEntry, *, link: bool) -> None:
    with writing(target, need_bytes=entry.bytes):
        if link:
            # Some file systems have no links.
            with suppress(OSError):
                os.link(source, target)
                return
        shutil.copyfile(source, target)
        sync(target)
