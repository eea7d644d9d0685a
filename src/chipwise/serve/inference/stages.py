"""The stages of inference: prepare the arrays, run the graph, write the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic_core import to_json

from chipwise.engine.graph_session import GraphSession, RunsInto, TensorSpec
from chipwise.errors import ChipwiseError, EngineError
from chipwise.serve.inference.audio import GivenAudio
from chipwise.serve.inference.feed_buffer import FeedBuffer
from chipwise.serve.inference.image import GivenImages
from chipwise.serve.inference.tensor import Given, bad, check_listed
from chipwise.serve.inference.tensor_types import type_name
from chipwise.serve.pipeline.stage import Stage

# Of what an answer lists; a request may have as much.
_MAX_JSON_BYTES = 64 << 20
# Written at a stretch, which takes a few milliseconds.
_NUMBERS_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class Place:
    """Memory of another program's that an output is left in.

    Attributes:
        view: Its bytes.
        region: The region's name.
        offset: Where in the region it begins, in bytes.
        where: What it is called in errors.
    """

    view: memoryview
    region: str
    offset: int
    where: str


@dataclass(frozen=True)
class Ask:
    """A request that fits the graph.

    Attributes:
        id: The client's name for it.
        tensors: What it gives, one an input.
        outputs: The outputs it wants, in order, and whether each as bytes behind the JSON.
        places: Where outputs are left that are not sent.
    """

    id: str | None
    tensors: Sequence[Given | GivenImages | GivenAudio]
    outputs: Mapping[str, bool]
    places: Mapping[str, Place] = field(default_factory=dict)


@dataclass(frozen=True)
class Prepared:
    """A request with its arrays, which lie in a buffer until they were run."""

    ask: Ask
    feed: Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Ran:
    """A request with what came of it."""

    ask: Ask
    outputs: Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Reply:
    """An answer as it is sent.

    Attributes:
        body: JSON, and behind it the outputs that are sent as bytes.
        json_bytes: Length of the JSON; None if there is nothing else.
    """

    body: bytes
    json_bytes: int | None


def inference_stages(
    name: str,
    session: GraphSession,
    specs: Sequence[TensorSpec],
    shapes: Sequence[Mapping[str, Sequence[int]]] = (),
) -> tuple[Stage, Stage, Stage]:
    """The stages.

    Args:
        name: The model's name.
        session: The open graph; the second stage's thread runs it.
        specs: Its inputs.
        shapes: The shapes that it was compiled for, if several.
    """
    inputs = {spec.name: spec for spec in specs}

    def prepare(ask: Ask, buffer: FeedBuffer) -> Prepared:
        feed = {
            one.name: one.filled(buffer) if isinstance(one, Given) else one.filled(buffer, inputs[one.name])
            for one in ask.tensors
        }
        check_listed({name: array.shape for name, array in feed.items()}, shapes)
        return Prepared(ask, feed)

    def run(prepared: Prepared, _: None) -> Ran:
        places = {output: place.view for output, place in prepared.ask.places.items()}
        if places and isinstance(session, RunsInto):
            outputs = session.run_into(prepared.feed, places)
        else:
            outputs = session.run(prepared.feed)
        return Ran(prepared.ask, {output: outputs[output] for output in prepared.ask.outputs})

    def write(ran: Ran, _: None) -> Reply:
        return written(name, ran)

    return (
        Stage("prepare", lambda values, buffers: _one_by_one(prepare, values, buffers), buffer=FeedBuffer),
        Stage("run", lambda values, buffers: _one_by_one(run, values, buffers)),
        Stage("write", lambda values, buffers: _one_by_one(write, values, buffers)),
    )


def written(name: str, ran: Ran) -> Reply:
    """The answer in the Open Inference Protocol's form.

    Raises:
        EngineError: A number is not finite, which JSON has no word for, or an output's type has no name.
        RequestError: An output does not fit its place, or is too long for JSON.
    """
    entries, tails, left_bytes = [], [], _MAX_JSON_BYTES
    for output, array in ran.outputs.items():
        entry: dict[str, Any] = {"name": output, "datatype": type_name(array.dtype), "shape": list(array.shape)}
        if (place := ran.ask.places.get(output)) is not None:
            entry["parameters"] = _left(array, place)
        elif ran.ask.outputs[output]:
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            tails.append(np.ascontiguousarray(little).tobytes())
            entry["parameters"] = {"binary_data_size": len(tails[-1])}
        else:
            numbers = _listed(output, array, left_bytes)
            left_bytes -= len(numbers)
            entries.append(to_json(entry)[:-1] + b',"data":[' + numbers + b"]}")
            continue
        entries.append(to_json(entry))
    head = to_json({"model_name": name, **({} if ran.ask.id is None else {"id": ran.ask.id})})
    text = head[:-1] + b',"outputs":[' + b",".join(entries) + b"]}"
    return Reply(text + b"".join(tails), len(text) if tails else None)


def _listed(output: str, array: npt.NDArray[Any], most_bytes: int) -> bytes:
    """The numbers of an output, as JSON lists them, by parts between which other threads get their turn.

    Raises:
        EngineError: One is not finite.
        RequestError: They are longer than ``most_bytes``.
    """
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise EngineError(
            f"the output {output!r} holds numbers that JSON has no word for", remedy="ask for it as binary data"
        )
    flat, parts, used_bytes = array.reshape(-1), [], 0
    for start in range(0, len(flat), _NUMBERS_AT_ONCE):
        parts.append(to_json(flat[start : start + _NUMBERS_AT_ONCE].tolist())[1:-1])
        used_bytes += len(parts[-1]) + 1
        if used_bytes > most_bytes:
            raise bad(
                "outputs",
                f"of {len(flat)} numbers in {output!r} an answer becomes longer than {_MAX_JSON_BYTES >> 20} MiB of "
                "JSON; ask for it as binary data",
            )
    return b",".join(parts)


def _left(array: npt.NDArray[Any], place: Place) -> dict[str, str | int]:
    """Where an output is, once it is in its place."""
    if array.nbytes > place.view.nbytes:
        raise bad(place.where, f"is {place.view.nbytes}, the output has {array.nbytes} bytes")
    if array.size:
        there = np.frombuffer(place.view, array.dtype.newbyteorder("<"), array.size).reshape(array.shape)
        if not np.shares_memory(array, there):
            there[...] = array
    return {
        "shared_memory_region": place.region,
        "shared_memory_offset": place.offset,
        "shared_memory_byte_size": array.nbytes,
    }


def _one_by_one(work: Any, values: Sequence[Any], buffers: Sequence[Any]) -> list[Any | ChipwiseError]:
    return [work(value, buffer) for value, buffer in zip(values, buffers, strict=True)]
