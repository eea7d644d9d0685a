"""POST /v1/infer: named tensors or files of these in, named tensors out, in the Open Inference Protocol's form."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chipwise.errors import RequestError
from chipwise.serve.api.shared_memory import NO_MEMORY, Memory, MemoryParameters, memory_of
from chipwise.serve.exchange.post import Post
from chipwise.serve.http.body import read_body
from chipwise.serve.http.errors import wrong_model
from chipwise.serve.http.fields import read_form
from chipwise.serve.http.given_files import given_files
from chipwise.serve.http.single_shot import SingleShot
from chipwise.serve.http.traced import trace_of
from chipwise.serve.http.urgency import DeadlineField
from chipwise.serve.inference.audio import GivenAudio
from chipwise.serve.inference.image import GivenImages
from chipwise.serve.inference.regions import Regions
from chipwise.serve.inference.stages import Ask, Place, Reply
from chipwise.serve.inference.tensor import Given, bad, check_listed
from chipwise.serve.inference.tensor_types import BYTES, type_name
from chipwise.serve.models.served_graph import ServedGraph
from chipwise.serve.settings import ServeSettings

INFER = "/v1/infer"

_JSON_LENGTH = "inference-header-content-length"
_FORM = ConfigDict(strict=True, extra="ignore", frozen=True)
_MAX_TENSORS = 64
_MAX_RANK = 16
# Reading JSON keeps all other requests waiting: 2 million values for about 0.3 s.
_MAX_VALUES = 2_000_000
_MAX_OBJECTS = 4096
Size = Annotated[int, Field(ge=1, le=1 << 40)]


class InputParameters(MemoryParameters):
    """What an input says beside its data."""

    binary_data_size: Annotated[int, Field(ge=0)] | None = None
    image: dict[str, Any] | None = None
    audio: dict[str, Any] | None = None


class InputFields(BaseModel):
    """A tensor of a request."""

    model_config = _FORM

    name: str
    shape: Annotated[list[Size], Field(max_length=_MAX_RANK)]
    datatype: Literal[
        "BOOL",
        "UINT8",
        "UINT16",
        "UINT32",
        "UINT64",
        "INT8",
        "INT16",
        "INT32",
        "INT64",
        "FP16",
        "FP32",
        "FP64",
        "BYTES",
    ]
    data: list[Any] | str | None = None
    parameters: InputParameters = InputParameters()


class OutputParameters(MemoryParameters):
    """How an output is wanted."""

    binary_data: bool | None = None


class OutputFields(BaseModel):
    """An output that is wanted."""

    model_config = _FORM

    name: str
    parameters: OutputParameters = OutputParameters()


class InferParameters(BaseModel):
    """How all outputs are wanted."""

    model_config = _FORM

    binary_data_output: bool | None = None


class InferFields(BaseModel):
    """The JSON of an inference request."""

    model_config = _FORM

    inputs: Annotated[list[InputFields], Field(min_length=1, max_length=_MAX_TENSORS)]
    id: str | None = None
    model: str | None = None
    outputs: Annotated[list[OutputFields], Field(min_length=1, max_length=_MAX_TENSORS)] | None = None
    parameters: InferParameters = InferParameters()
    deadline_ms: DeadlineField | None = None


def infer_routes(post: Post[SingleShot[ServedGraph]], settings: ServeSettings, regions: Regions | None) -> list[Route]:
    """The routes: what the model takes, and the inference itself.

    Args:
        post: The graph's post.
        settings: The server's settings.
        regions: The shared memory that tensors may lie in; None if they may not.
    """

    async def describe(request: Request) -> Response:
        del request
        return JSONResponse(_described(post.current.model))

    async def infer(request: Request) -> Response:
        # What counts is the same whoever holds the post.
        counted = post.current
        arrived_s = counted.clock()
        with counted.body_counted():
            body = await read_body(request, settings.max_tensor_bytes, settings.body_timeout_s)
        with post.taken() as shot:
            return await answer(shot, request, body, arrived_s)

    async def answer(shot: SingleShot[ServedGraph], request: Request, body: bytes, arrived_s: float) -> Response:
        try:
            memory = memory_of(regions, request)
            length = request.headers.get(_JSON_LENGTH)
            ask, deadline_ms = await run_in_threadpool(read_ask, shot.model, body, length, memory, shot.names)
        except RequestError:
            shot.metrics.over(shot.kind, "invalid")
            raise
        if (trace := trace_of(request)) is not None:
            trace.model = shot.name
        reply: Reply = await shot.answer(request, ask, deadline_ms, arrived_s=arrived_s)
        if reply.json_bytes is None:
            return Response(reply.body, media_type="application/json")
        headers = {_JSON_LENGTH: str(reply.json_bytes)}
        return Response(reply.body, media_type="application/octet-stream", headers=headers)

    return [Route(INFER, infer, methods=["POST"]), Route(INFER, describe, methods=["GET"])]


def read_ask(
    model: ServedGraph,
    body: bytes,
    json_length: str | None,
    memory: Memory = NO_MEMORY,
    names: tuple[str, ...] = (),
) -> tuple[Ask, int | None]:
    """A request held against the graph's inputs, and its deadline in milliseconds. No array is made.

    Args:
        model: The graph.
        body: The request's body.
        json_length: How much of it is JSON, as its header says; None for all.
        memory: Gives the shared memory that tensors may lie in.
        names: What a request may call it; its own name if there are none.

    Raises:
        RequestError: Something does not fit; the message names the place.
        DependencyError: It holds pictures or recordings, and there is nothing to decode them with.
    """
    length = len(body)
    if json_length is not None:
        if not json_length.isdecimal() or len(json_length) > 12 or int(json_length) > length:
            raise bad(f"header {_JSON_LENGTH}", f"is {json_length[:20]!r}, the body has {length} bytes")
        length = int(json_length)
    text = body[:length]
    _refuse_many_values(text)
    fields = read_form(InferFields, text)
    if fields.model is not None and fields.model not in (names or (model.name,)):
        raise wrong_model(fields.model, model.name, "inference")
    tensors, outputs = _tensors(model, fields, body[length:], memory), _outputs(model, fields)
    return Ask(fields.id, tensors, outputs, _places(fields, memory)), fields.deadline_ms


def _refuse_many_values(text: bytes) -> None:
    # Counted by what stands between them: some may stand in names, which are short.
    if text.count(b",") > _MAX_VALUES:
        raise bad(
            "body", f"lists more than {_MAX_VALUES:,} values; send tensors as base64, or as bytes behind the JSON"
        )
    if text.count(b"{") > _MAX_OBJECTS:
        raise bad("body", f"holds more than {_MAX_OBJECTS} objects, at most {_MAX_TENSORS} tensors are taken")


def _tensors(
    model: ServedGraph, fields: InferFields, tail: bytes, memory: Memory
) -> list[Given | GivenImages | GivenAudio]:
    specs = {spec.name: spec for spec in model.inputs}
    names = [one.name for one in fields.inputs]
    for i, name in enumerate(names):
        if name not in specs:
            raise bad(f"inputs[{i}].name", f"the model has no input {name!r}; it has {', '.join(specs)}")
        if name in names[:i]:
            raise bad(f"inputs[{i}].name", f"the input {name!r} is given twice")
    if missing := [name for name in specs if name not in names]:
        raise bad("inputs", f"the input {missing[0]!r} is missing")
    tensors: list[Given | GivenImages | GivenAudio] = []
    at = 0
    for i, one in enumerate(fields.inputs):
        where, size = f"inputs[{i}]", one.parameters.binary_data_size
        data: list[Any] | str | bytes | memoryview | None = one.data
        if (view := one.parameters.view(memory, f"{where}.parameters")) is not None:
            if data is not None or size is not None:
                raise bad(f"{where}.parameters.shared_memory_region", "is beside data")
            data = view.toreadonly()
        elif size is not None:
            if data is not None or at + size > len(tail):
                left = len(tail) - at
                what = "is beside data" if data is not None else f"is {size}, the body has {left} bytes left"
                raise bad(f"{where}.parameters.binary_data_size", what)
            data, at = tail[at : at + size], at + size
        if data is None:
            raise bad(f"{where}.data", "is missing")
        if one.datatype == BYTES:
            said = (one.parameters.image, one.parameters.audio)
            tensors.append(given_files(model, specs[one.name], data, one.shape, said, where))
        else:
            tensors.append(Given(one.name, tuple(one.shape), one.datatype, data, where).checked(specs[one.name]))
    if at != len(tail):
        raise bad("body", f"{len(tail) - at} bytes behind the JSON belong to no input")
    # Sizes of pictures and recordings are known when they are decoded.
    check_listed({one.name: one.shape for one in tensors if isinstance(one, Given)}, model.shapes)
    return tensors


def _places(fields: InferFields, memory: Memory) -> dict[str, Place]:
    places = {}
    for i, one in enumerate(fields.outputs or ()):
        said, where = one.parameters, f"outputs[{i}].parameters"
        if (view := said.view(memory, where)) is not None:
            region, offset = str(said.shared_memory_region), said.shared_memory_offset or 0
            places[one.name] = Place(view, region, offset, f"{where}.shared_memory_byte_size")
    return places


def _outputs(model: ServedGraph, fields: InferFields) -> dict[str, bool]:
    names, usual = model.session.output_names, bool(fields.parameters.binary_data_output)
    if fields.outputs is None:
        return dict.fromkeys(names, usual)
    for i, wanted in enumerate(fields.outputs):
        if wanted.name not in names:
            raise bad(f"outputs[{i}].name", f"the model has no output {wanted.name!r}; it has {', '.join(names)}")
    return {
        one.name: usual if one.parameters.binary_data is None else one.parameters.binary_data for one in fields.outputs
    }


def _described(model: ServedGraph) -> dict[str, Any]:
    """What the model takes and gives, as the protocol describes models."""
    inputs = [
        {
            "name": spec.name,
            "datatype": None if spec.dtype is None else type_name(spec.dtype),
            "shape": [-1 if size is None else size for size in spec.shape],
        }
        for spec in model.inputs
    ]
    outputs = [{"name": name} for name in model.session.output_names]
    listed = [{name: list(shape) for name, shape in one.items()} for one in model.shapes]
    more = {"parameters": {"shapes": listed}} if listed else {}
    return {"name": model.name, "platform": "chipwise", "inputs": inputs, "outputs": outputs, **more}
