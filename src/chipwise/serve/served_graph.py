"""ServedGraph: what a server needs of a model from named tensors to named tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from chipwise.bundle import Bundle
from chipwise.bundle.manifest import GRAPH
from chipwise.engine.graph_session import DescribesInputs, GraphSession, TensorSpec
from chipwise.errors import BundleError
from chipwise.serve.bundle_facts import created_s
from chipwise.serve.inference.image_settings import ImageSettings

_IMAGES = "images"
_SETTINGS: TypeAdapter[dict[str, ImageSettings]] = TypeAdapter(dict[str, ImageSettings])


@dataclass(frozen=True)
class ServedGraph:
    """An open graph.

    Attributes:
        name: What clients call it.
        session: The graph. The server closes it.
        inputs: Its inputs, in order.
        images: How pictures become its inputs, by input, as the bundle says.
        created_s: When it was built, in seconds since 1970.
        emulates: Name of the chip whose arithmetic it emulates; None if it is what is deployed.
    """

    name: str
    session: GraphSession
    inputs: tuple[TensorSpec, ...]
    images: Mapping[str, ImageSettings]
    created_s: int
    emulates: str | None = None


def holds_graph(bundle: Bundle) -> bool:
    """Whether a bundle holds a plain graph."""
    return GRAPH in bundle.files


def open_served_graph(bundle: Bundle, *, threads: int | None = None) -> ServedGraph:
    """Open a graph and run its self-test.

    Raises:
        BundleError: The bundle holds none, the self-test failed, or its settings for pictures are wrong.
        EngineError: It cannot be loaded.
    """
    config = bundle.manifest.model.config
    try:
        images = _SETTINGS.validate_python(config.get(_IMAGES, {}))
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, (_IMAGES, *first["loc"])))
        raise BundleError(f"{place}: {first['msg']}", where=str(bundle.path), remedy="build the bundle again") from e
    session = bundle.open_graph(threads=threads)
    if isinstance(session, DescribesInputs):
        specs = session.inputs
    else:
        # Runtimes that convert what they are given: the build wrote down the sizes.
        shapes = config.get("inputs", {})
        specs = tuple(
            TensorSpec(name, tuple(size if isinstance(size, int) else None for size in shapes.get(name, ())), None)
            for name in session.input_names
        )
    return ServedGraph(bundle.manifest.name, session, specs, images, created_s(bundle), bundle.manifest.emulates)
