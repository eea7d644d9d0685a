"""Bundle: a bundle on disk whose every byte has been checked, ready to be run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from chipwise.background import is_background, lower_priority
from chipwise.bundle.entries import FileEntry, SelfTest
from chipwise.bundle.graph_test import run_graph_test
from chipwise.bundle.layout import FILES, MANIFEST, MANIFEST_DIGEST, MAX_MANIFEST_BYTES, digest_line
from chipwise.bundle.manifest import (
    CHAT_TEMPLATE,
    FALLBACK_PREFIX,
    GRAPH,
    SPECIAL_TOKENS,
    TEST_INPUTS,
    TEST_OUTPUTS,
    TOKENIZER,
    Manifest,
    is_engine_role,
    of_shape,
)
from chipwise.bundle.self_test import Turn, run_self_test
from chipwise.engine import Session
from chipwise.engine.graph_session import GraphEngine, GraphSession
from chipwise.engine.isolated import IsolatedEngine, Isolation, open_isolated_graph
from chipwise.engine.registry import get_engine
from chipwise.errors import BundleError, EngineError, InputError
from chipwise.files import is_lfs_pointer, read_bounded, sha256_bytes, sha256_file
from chipwise.model.chat_template import ChatTemplate
from chipwise.model.tokenizer import Tokenizer

# Hashing leaves the interpreter's lock; more threads than this only wait for the disk.
_HASH_THREADS = 4

# Of a path that may not be one.
_SHOWN = 200

_AGAIN = "copy or build the bundle again"
_NAME_ONE = "name a folder `chipwise build` made"


@dataclass(frozen=True)
class Bundle:
    """A bundle whose files are those its manifest names. Made by ``open_bundle``.

    Attributes:
        path: Its folder.
        manifest: What it is.
        files: The files by role.
    """

    path: Path
    manifest: Manifest
    files: Mapping[str, Path]

    @cached_property
    def variants(self) -> Mapping[str, Bundle]:
        """The other forms of the model, by name, each as a bundle in the same folder.

        One is called ``NAME:VARIANT``. What stands in for the first form where its engine fails stands in for it, too.
        """
        manifest = self.manifest
        return {
            name: Bundle(
                self.path,
                replace(variant, name=f"{manifest.name}:{name}", fallback=manifest.fallback),
                {
                    **{role: path for role, path in self.files.items() if role.startswith(FALLBACK_PREFIX)},
                    **_paths(self.path, variant),
                },
            )
            for name, variant in manifest.variants.items()
        }

    def variant(self, name: str) -> Bundle:
        """One of the other forms of the model.

        Raises:
            InputError: It has none of that name.
        """
        if name not in self.variants:
            known = f"it has {', '.join(self.variants)}" if self.variants else "it has none"
            raise InputError(f"it has no variant {name!r}", where=str(self.path), remedy=known)
        return self.variants[name]

    def same_content(self, other: Bundle) -> bool:
        """Whether another bundle holds the same files for the same engine: nothing could tell the two apart."""
        return (self.manifest.files, self.manifest.engine) == (other.manifest.files, other.manifest.engine)

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer; None if the bundle has none.

        Raises:
            ModelFormatError: Its files hold no tokenizer.
        """
        if TOKENIZER not in self.files or SPECIAL_TOKENS not in self.files:
            return None
        return Tokenizer.from_files(self.files[TOKENIZER], self.files[SPECIAL_TOKENS])

    @cached_property
    def chat_template(self) -> ChatTemplate | None:
        """The chat template; None if the bundle has none.

        Raises:
            BundleError: Its file holds no chat template.
            ModelFormatError: The template does not parse.
        """
        if CHAT_TEMPLATE not in self.files:
            return None
        path = self.files[CHAT_TEMPLATE]
        try:
            return ChatTemplate.from_dict(json.loads(path.read_bytes()), where=str(path))
        except (ValueError, KeyError, TypeError) as e:
            raise BundleError(f"no chat template ({e})", where=str(path), remedy=_AGAIN) from e

    def open_session(
        self,
        n_slots: int,
        max_context: int,
        *,
        threads: int | None = None,
        options: Mapping[str, Any] | None = None,
        self_test: bool = True,
        isolation: Isolation | None = None,
        turn: Turn = nullcontext,
    ) -> Session:
        """Open the model in its engine, and run the self-test in the session that is returned.

        Args:
            n_slots: KV slots to hold.
            max_context: Tokens a slot holds.
            threads: Threads of the engine; None leaves it to the bundle's options or the engine.
            options: Further settings of the engine, which go before the bundle's.
            self_test: Whether to compare a short run with what the build recorded.
            isolation: How the engine's process is kept, and then each is tested as it starts; None runs it in this one.
            turn: What each step of the self-test runs in.

        Raises:
            BundleError: The self-test failed: the runtime here does not compute what the build saw.
            DependencyError: The engine's package is not installed.
            EngineError: The runtime cannot load the files or failed on them.
            InputError: The engine is unknown, or ``max_context`` is too short for the self-test.
        """
        self._refuse_context(max_context, self.manifest.self_test if self_test else None)
        graphs = {role: path for role, path in self.files.items() if is_engine_role(role)}
        return self._open(
            self.manifest.engine.name,
            graphs,
            self._options(threads, options),
            self.manifest.self_test if self_test else None,
            (n_slots, max_context),
            isolation,
            turn,
        )

    def open_fallback(
        self,
        n_slots: int,
        max_context: int,
        *,
        threads: int | None = None,
        options: Mapping[str, Any] | None = None,
        turn: Turn = nullcontext,
    ) -> Session:
        """Open the second engine, and run its self-test in the session that is returned.

        Args:
            n_slots: KV slots to hold.
            max_context: Tokens a slot holds.
            threads: Threads of the engine; None leaves it to the bundle's options or the engine.
            options: Further settings of the engine, which go before the bundle's.
            turn: What each step of the self-test runs in.

        Raises:
            BundleError: There is none, or its self-test failed.
            DependencyError: The engine's package is not installed.
            EngineError: The runtime cannot load the files or failed on them.
            InputError: The engine is unknown, or the context is too short for the self-test.
        """
        fallback = self.manifest.fallback
        if fallback is None:
            raise BundleError("it has no fallback", where=str(self.path), remedy="build it with --fallback fp16")
        self._refuse_context(max_context, fallback.self_test)
        graphs = {
            role.removeprefix(FALLBACK_PREFIX): path
            for role, path in self.files.items()
            if role.startswith(FALLBACK_PREFIX)
        }
        own = {} if threads is None else {"threads": threads}
        settings = {**fallback.engine.options, **own, **(options or {})}
        sizes = (n_slots, max_context)
        return self._open(fallback.engine.name, graphs, settings, fallback.self_test, sizes, turn=turn)

    def _open(
        self,
        engine: str,
        graphs: Mapping[str, Path],
        options: Mapping[str, Any],
        test: SelfTest | None,
        sizes: tuple[int, int],
        isolation: Isolation | None = None,
        turn: Turn = nullcontext,
    ) -> Session:
        n_slots, max_context = sizes

        def prove(opened: Session) -> None:
            if test is not None:
                run_self_test(opened, test, where=str(self.path), turn=turn)

        if isolation is not None:
            isolated = IsolatedEngine(engine, isolation, prove)
            return isolated.open(graphs, n_slots=n_slots, max_context=max_context, options=options)
        session = get_engine(engine).open(graphs, n_slots=n_slots, max_context=max_context, options=options)
        try:
            prove(session)
        except BaseException:
            session.close()
            raise
        return session

    def _refuse_context(self, max_context: int, test: SelfTest | None) -> None:
        if test is not None and max_context < test.context:
            raise InputError(
                f"a context of {max_context} tokens is too short for the self-test",
                where=str(self.path),
                remedy=f"serve it with a context of at least {test.context} tokens",
            )
        limit = self.manifest.model.config.get("max_positions")
        if isinstance(limit, int) and max_context > limit:
            raise InputError(
                f"a context of {max_context} tokens is longer than the model's {limit}",
                where=str(self.path),
                remedy=f"take a context of at most {limit}",
            )

    def open_graph(
        self,
        *,
        threads: int | None = None,
        options: Mapping[str, Any] | None = None,
        self_test: bool = True,
        isolation: Isolation | None = None,
        turn: Turn = nullcontext,
    ) -> GraphSession:
        """Open the graph of a bundle that holds no decoder, and run the self-test in the session that is returned.

        Args:
            threads: Threads of the engine; None leaves it to the bundle's options or the engine.
            options: Further settings of the engine, which go before the bundle's.
            self_test: Whether to compare a run with what the build recorded.
            isolation: How the engine's process is kept, and then each is tested as it starts; None runs it in this one.
            turn: What each run of the self-test is in.

        Raises:
            BundleError: The bundle holds no plain graph, or the self-test failed.
            DependencyError: The engine's package is not installed.
            EngineError: The engine runs no plain graphs, cannot load this one, or failed on it.
            InputError: The engine is unknown.
        """
        spec, test = self.manifest.engine, self.manifest.graph_test
        if GRAPH not in self.files:
            raise BundleError("it holds no plain graph", where=str(self.path), remedy="serve it, if it holds a decoder")
        graph, settings = self.files[GRAPH], self._options(threads, options)

        def prove(session: GraphSession) -> None:
            if self_test and test is not None:
                for shape in range(test.shapes):
                    inputs, outputs = (self.files[of_shape(role, shape)] for role in (TEST_INPUTS, TEST_OUTPUTS))
                    with turn():
                        run_graph_test(session, test, inputs, outputs, where=str(self.path))

        if isolation is not None:
            return open_isolated_graph(spec.name, graph, options=settings, isolation=isolation, prove=prove)
        engine = get_engine(spec.name)
        if not isinstance(engine, GraphEngine):
            raise EngineError(f"the engine {spec.name!r} runs no plain graphs", where=str(self.path))
        session = engine.open_graph(graph, options=settings)
        try:
            prove(session)
        except BaseException:
            session.close()
            raise
        return session

    def _options(self, threads: int | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
        own = {} if threads is None else {"threads": threads}
        return {**self.manifest.engine.options, **own, **(options or {})}


def open_bundle(path: Path) -> Bundle:
    """Open a bundle: every file is there, of the right size and digest, and nothing else lies among them.

    Files are digested as streams, several at once; one after the other in the background. Nothing is run; see
    ``Bundle.open_session``.

    Raises:
        BundleError: The folder is no bundle, incomplete, altered, or of a newer format.
    """
    try:
        if not path.is_dir():
            what = "no such folder" if not path.exists() else "not a folder"
            raise BundleError(what, where=_short(path), remedy=_NAME_ONE)
        if not (path / MANIFEST).exists():
            raise BundleError(f"no bundle: it has no {MANIFEST}", where=str(path), remedy=_NAME_ONE)
    except (OSError, ValueError) as e:
        # Python 3.14 answers no where the system says that it may not look, or that the name is too long.
        raise BundleError(f"cannot be read ({getattr(e, 'strerror', e)})", where=_short(path), remedy=_NAME_ONE) from e
    manifest = _read_manifest(path)
    folder = path / FILES
    entries = manifest.stored_files
    _refuse_unlisted(folder, entries.keys())
    found = [(folder / entry.file, entry) for entry in entries.values()]
    found += [(path / name, entry) for name, entry in manifest.documents.items() if (path / name).exists()]
    quietly = is_background()
    with ThreadPoolExecutor(1 if quietly else _HASH_THREADS, initializer=lower_priority if quietly else None) as pool:
        for _ in pool.map(_check_file, *zip(*found, strict=True)) if found else ():
            pass
    return Bundle(path, manifest, _paths(path, manifest))


def _paths(path: Path, manifest: Manifest) -> dict[str, Path]:
    return {role: path / FILES / entry.file for role, entry in manifest.files.items()}


def _short(path: Path) -> str:
    text = str(path)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _read_manifest(path: Path) -> Manifest:
    place = path / MANIFEST
    data = read_bounded(place, MAX_MANIFEST_BYTES, error=BundleError, remedy=_AGAIN)
    digest = read_bounded(path / MANIFEST_DIGEST, MAX_MANIFEST_BYTES, error=BundleError, remedy=_AGAIN)
    if digest != digest_line(sha256_bytes(data)):
        raise BundleError(f"altered: its digest is not the one in {MANIFEST_DIGEST}", where=str(place), remedy=_AGAIN)
    return Manifest.from_json(data, where=str(place))


def _refuse_unlisted(folder: Path, listed: Iterable[str]) -> None:
    # A graph could name a file that lies there but was never checked.
    if folder.is_symlink():
        raise BundleError("a link; a bundle's files lie inside it", where=str(folder), remedy=_AGAIN)
    try:
        unlisted = sorted({entry.name for entry in folder.iterdir()} - set(listed))
    except OSError as e:
        raise BundleError(f"cannot read ({e.strerror})", where=str(folder), remedy=_AGAIN) from e
    if unlisted:
        raise BundleError("not in the manifest", where=str(folder / unlisted[0]), remedy="remove it or " + _AGAIN)


def _check_file(path: Path, entry: FileEntry) -> None:
    where = str(path)
    if path.is_symlink():
        raise BundleError("a link; a bundle's files lie inside it", where=where, remedy=_AGAIN)
    try:
        if not path.is_file():
            raise BundleError("missing" if not path.exists() else "not a file", where=where, remedy=_AGAIN)
        if is_lfs_pointer(path):
            raise BundleError("a Git LFS pointer, not the file itself", where=where, remedy="run `git lfs pull`")
        if (size := path.stat().st_size) != entry.bytes:
            raise BundleError(f"{size} bytes instead of {entry.bytes}", where=where, remedy=_AGAIN)
        if (sha256 := sha256_file(path)) != entry.sha256:
            raise BundleError(
                f"altered: digest {sha256[:12]} instead of {entry.sha256[:12]}", where=where, remedy=_AGAIN
            )
    except OSError as e:
        raise BundleError(f"cannot read ({e.strerror})", where=where, remedy=_AGAIN) from e
