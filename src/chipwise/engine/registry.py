"""EngineRegistry: engines by name. A creator runs, and imports its runtime, only when its engine is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points

from chipwise.engine.null import NullEngine
from chipwise.engine.session import Engine
from chipwise.errors import DependencyError, EngineError, InputError

EngineCreator = Callable[[], Engine]

ENTRY_POINT_GROUP = "chipwise.engines"
"""Packages add engines by an entry point of this group that names a creator (an engine's class is one)."""


class EngineRegistry:
    """Engine creators by name: the built-in ones, then those that installed packages bring."""

    def __init__(self, group: str = ENTRY_POINT_GROUP) -> None:
        self._group = group
        self._creators: dict[str, EngineCreator] = {}

    def register(self, name: str, creator: EngineCreator) -> None:
        """Add an engine.

        Raises:
            InputError: The name is taken.
        """
        if name in self._creators:
            raise InputError(f"an engine named {name!r} is already registered", remedy="choose another name")
        self._creators[name] = creator

    def names(self) -> list[str]:
        """Every engine's name, sorted, whether its runtime is installed or not."""
        return sorted({*self._creators, *self._from_packages()})

    def create(self, name: str) -> Engine:
        """An engine by name. A registered creator goes before a package's of the same name.

        Raises:
            InputError: There is none of that name.
            DependencyError: The engine's runtime is not installed.
            EngineError: The package that brings the engine fails to load.
        """
        creator = self._creators.get(name) or self._load(name)
        try:
            return creator()
        except ImportError as e:
            raise DependencyError(
                f"the engine {name!r} needs the package {e.name or 'of its runtime'}, which cannot be imported ({e})",
                remedy="install it into the environment that chipwise runs in",
            ) from e

    def _from_packages(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self._group)}

    def _load(self, name: str) -> EngineCreator:
        point = self._from_packages().get(name)
        if point is None:
            raise InputError(f"no engine named {name!r}", remedy=f"known engines: {', '.join(self.names())}")
        try:
            creator = point.load()
        except Exception as e:  # a third party's module may raise anything at import
            raise EngineError(
                f"the engine {name!r} fails to load ({type(e).__name__}: {e})",
                where=point.value,
                remedy="repair or remove the package that brings it",
            ) from e
        if not callable(creator):
            raise EngineError(f"the entry point of the engine {name!r} is not callable", where=point.value)
        return creator  # type: ignore[no-any-return]  # its type is the other package's promise


def _onnxruntime() -> Engine:
    from chipwise.engine.onnxruntime import OnnxRuntimeEngine

    return OnnxRuntimeEngine()


def _rknn() -> Engine:
    from chipwise.engine.rknn import RknnEngine

    return RknnEngine()


def _rkllm() -> Engine:
    from chipwise.engine.rkllm import RkllmEngine

    return RkllmEngine()


def _llama_cpp() -> Engine:
    from chipwise.engine.llamacpp import LlamaCppEngine

    return LlamaCppEngine()


engines = EngineRegistry()
engines.register("onnxruntime", _onnxruntime)
engines.register("rknn", _rknn)
engines.register("rkllm", _rkllm)
engines.register("llama.cpp", _llama_cpp)
engines.register("null", NullEngine)


def get_engine(name: str) -> Engine:
    """The engine of that name from the one registry; see ``EngineRegistry.create``.

    Raises:
        InputError: There is none of that name.
        DependencyError: The engine's runtime is not installed.
        EngineError: The package that brings the engine fails to load.
    """
    return engines.create(name)
