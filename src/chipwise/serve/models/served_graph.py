"""ServedGraph: what a server needs of a model from named tensors to named tensors."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from chipwise.bundle import Bundle
from chipwise.bundle.manifest import GRAPH
from chipwise.bundle.self_test import Turn
from chipwise.engine.graph_session import DescribesInputs, GraphSession, TensorSpec
from chipwise.engine.isolated import Isolation
from chipwise.errors import BundleError
from chipwise.serve.inference.audio_settings import AudioSettings
from chipwise.serve.inference.image_settings import ImageSettings
from chipwise.serve.models.bundle_facts import created_s, fingerprint_of

_Settings = TypeVar("_Settings")


@dataclass(frozen=True)
class ServedGraph:
    """An open graph.

    Attributes:
        name: What clients call it.
        session: The graph. The server closes it.
        inputs: Its inputs, in order.
        images: How pictures become its inputs, by input, as the bundle says.
        audio: The same of recordings.
        shapes: The shapes of inputs that it was compiled for, if several; empty where the inputs say all.
        created_s: When it was built, in seconds since 1970.
        emulates: Name of the chip whose arithmetic it emulates; None if it is what is deployed.
        fingerprint: Changes whenever its answers might; None if unknown.
    """

    name: str
    session: GraphSession
    inputs: tuple[TensorSpec, ...]
    images: Mapping[str, ImageSettings]
    created_s: int
    emulates: str | None = None
    audio: Mapping[str, AudioSettings] = field(default_factory=dict)
    shapes: tuple[Mapping[str, tuple[int, ...]], ...] = ()
    fingerprint: str | None = None


def holds_graph(bundle: Bundle) -> bool:
    """Whether a bundle holds a plain graph."""
    return GRAPH in bundle.files


def open_served_graph(
    bundle: Bundle, *, threads: int | None = None, isolation: Isolation | None = None, turn: Turn = nullcontext
) -> ServedGraph:
    """Open a graph and run its self-test.

    Args:
        bundle: The bundle.
        threads: Threads of the engine; None leaves it to the bundle or the engine.
        isolation: How the engine's process is kept; None runs it in this one.
        turn: What each run of the self-test is in.

    Raises:
        BundleError: The bundle holds none, the self-test failed, or its settings for pictures or recordings are wrong.
        EngineError: It cannot be loaded.
    """
    config = bundle.manifest.model.config
    images, audio = _described(bundle, "images", ImageSettings), _described(bundle, "audio", AudioSettings)
    listed, created = _shapes(bundle), created_s(bundle)
    # From here on nothing is wrong with the bundle: what is open would stay so.
    session = bundle.open_graph(threads=threads, isolation=isolation, turn=turn)
    if isinstance(session, DescribesInputs):
        specs = session.inputs
    else:
        # Runtimes that convert what they are given: the build wrote down the sizes.
        shapes = config.get("inputs", {})
        specs = tuple(
            TensorSpec(name, tuple(size if isinstance(size, int) else None for size in shapes.get(name, ())), None)
            for name in session.input_names
        )
    manifest = bundle.manifest
    return ServedGraph(
        manifest.name, session, specs, images, created, manifest.emulates, audio, listed, fingerprint_of(bundle)
    )


def _shapes(bundle: Bundle) -> tuple[Mapping[str, tuple[int, ...]], ...]:
    """The shapes that the graph was compiled for, as the build wrote them down."""
    listed = bundle.manifest.model.config.get("shapes", [])
    try:
        return TypeAdapter(tuple[dict[str, tuple[int, ...]], ...]).validate_python(listed)
    except ValidationError as e:
        raise BundleError("shapes is no list of the shapes of inputs", where=str(bundle.path),
                          remedy="build the bundle again") from e  # fmt: skip


def _described(bundle: Bundle, kind: str, form: type[_Settings]) -> dict[str, _Settings]:
    """How files of a kind become inputs, by input.

    Raises:
        BundleError: It is of another form.
    """
    adapter: TypeAdapter[dict[str, _Settings]] = TypeAdapter(dict[str, form])  # type: ignore[valid-type]
    try:
        return adapter.validate_python(bundle.manifest.model.config.get(kind, {}))
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, (kind, *first["loc"])))
        raise BundleError(f"{place}: {first['msg']}", where=str(bundle.path), remedy="build the bundle again") from e
