"""The stages of inference: prepare the arrays, run the graph, write the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic_core import to_json

from chipwise.engine.graph_session import GraphSession, TensorSpec
from chipwise.errors import ChipwiseError, EngineError
from chipwise.serve.inference.audio import GivenAudio
from chipwise.serve.inference.feed_buffer import FeedBuffer
from chipwise.serve.inference.image import GivenImages
from chipwise.serve.inference.tensor import Given
from chipwise.serve.inference.tensor_types import type_name
from chipwise.serve.pipeline.stage import Stage


@dataclass(frozen=True)
class Ask:
    """A request that fits the graph.

    Attributes:
        id: The client's name for it.
        tensors: What it gives, one an input.
        outputs: The outputs it wants, in order, and whether each as bytes behind the JSON.
    """

    id: str | None
    tensors: Sequence[Given | GivenImages | GivenAudio]
    outputs: Mapping[str, bool]


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


def inference_stages(name: str, session: GraphSession, specs: Sequence[TensorSpec]) -> tuple[Stage, Stage, Stage]:
    """The stages.

    Args:
        name: The model's name.
        session: The open graph; the second stage's thread runs it.
        specs: Its inputs.
    """
    inputs = {spec.name: spec for spec in specs}

    def prepare(ask: Ask, buffer: FeedBuffer) -> Prepared:
        feed = {
            one.name: one.filled(buffer) if isinstance(one, Given) else one.filled(buffer, inputs[one.name])
            for one in ask.tensors
        }
        return Prepared(ask, feed)

    def run(prepared: Prepared, _: None) -> Ran:
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
    """
    entries, tails = [], []
    for output, array in ran.outputs.items():
        entry: dict[str, Any] = {"name": output, "datatype": type_name(array.dtype), "shape": list(array.shape)}
        if ran.ask.outputs[output]:
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            tails.append(np.ascontiguousarray(little).tobytes())
            entry["parameters"] = {"binary_data_size": len(tails[-1])}
        else:
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise EngineError(
                    f"the output {output!r} holds numbers that JSON has no word for", remedy="ask for it as binary data"
                )
            entry["data"] = array.reshape(-1).tolist()
        entries.append(entry)
    head = {"model_name": name, **({} if ran.ask.id is None else {"id": ran.ask.id}), "outputs": entries}
    text = to_json(head)
    return Reply(text + b"".join(tails), len(text) if tails else None)


def _one_by_one(work: Any, values: Sequence[Any], buffers: Sequence[Any]) -> list[Any | ChipwiseError]:
    return [work(value, buffer) for value, buffer in zip(values, buffers, strict=True)]
