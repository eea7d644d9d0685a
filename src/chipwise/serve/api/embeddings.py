"""POST /v1/embeddings."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from chipwise.engine.text_encoder import TextEncoder, Vectors
from chipwise.errors import ChipwiseError, EngineError, RequestError
from chipwise.serve.exchange.post import Post
from chipwise.serve.http.body import read_as
from chipwise.serve.http.fields import read_form
from chipwise.serve.http.single_shot import SingleShot
from chipwise.serve.http.traced import trace_of
from chipwise.serve.http.urgency import DeadlineField
from chipwise.serve.models.served_encoder import ServedEncoder
from chipwise.serve.pipeline.stage import Stage
from chipwise.serve.settings import ServeSettings

# OpenAI's.
_MAX_INPUTS = 2048
# Requests whose texts are run together.
_BATCH_REQUESTS = 16
_INPUT = "should be a string, a list of strings, a list of token ids, or a list of such lists"


def _inputs(value: Any) -> Any:
    """The texts, each a string or a list of token ids."""
    if isinstance(value, str):
        inputs: list[Any] = [value]
    elif isinstance(value, list) and value and all(type(token) is int for token in value):
        inputs = [value]
    elif isinstance(value, list) and value and (all(isinstance(text, str) for text in value) or _all_ids(value)):
        inputs = value
    else:
        raise PydanticCustomError("input", _INPUT)
    if len(inputs) > _MAX_INPUTS:
        raise PydanticCustomError("input", f"holds {len(inputs)} texts, at most {_MAX_INPUTS} are taken")
    empty = next((i for i, text in enumerate(inputs) if not text), None)
    if empty is not None:
        raise PydanticCustomError("input", f"text {empty} is empty")
    return inputs


def _all_ids(value: list[Any]) -> bool:
    return all(isinstance(text, list) and all(type(token) is int for token in text) for text in value)


class EmbeddingFields(BaseModel):
    """The body of an embeddings request."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    input: Annotated[list[Any], BeforeValidator(_inputs)]
    model: str | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(ge=1)] | None = None
    deadline_ms: DeadlineField | None = None


def embedding_stage(encoder: TextEncoder) -> Stage:
    """What runs the encoder: the texts of all requests that wait, together."""

    def run(requests: Sequence[Sequence[Sequence[int]]], _: Sequence[Any]) -> list[Vectors | ChipwiseError]:
        vectors = encoder.encode([text for request in requests for text in request])
        ends = np.cumsum([len(request) for request in requests])
        return [_finite(part) for part in np.split(vectors, ends[:-1])]

    return Stage("encode", run, batch=_BATCH_REQUESTS)


def embeddings_route(post: Post[SingleShot[ServedEncoder]], settings: ServeSettings) -> Route:
    """The route."""

    async def embeddings(request: Request) -> JSONResponse:
        # What counts is the same whoever holds the post.
        counted = post.current
        arrived_s = counted.clock()
        try:
            read = partial(read_form, EmbeddingFields)
            with counted.body_counted():
                fields = await read_as(read, request, settings.max_body_bytes, settings.body_timeout_s)
        except RequestError:
            counted.metrics.over(counted.kind, "invalid")
            raise
        with post.taken() as shot:
            return await answer(shot, request, fields, arrived_s)

    async def answer(
        shot: SingleShot[ServedEncoder], request: Request, fields: EmbeddingFields, arrived_s: float
    ) -> JSONResponse:
        model = shot.model
        try:
            shot.check_model(fields.model, "embeddings")
            _check_dimensions(fields.dimensions, model.width)
            if (trace := trace_of(request)) is not None:
                trace.model = model.name
            texts = await run_in_threadpool(_tokens, model, fields.input)
        except RequestError:
            shot.metrics.over(shot.kind, "invalid")
            raise
        vectors: Vectors = await shot.answer(request, texts, fields.deadline_ms, arrived_s=arrived_s)
        if (trace := trace_of(request)) is not None:
            trace.attributes["gen_ai.usage.input_tokens"] = sum(map(len, texts))
            trace.attributes["gen_ai.embeddings.dimension.count"] = model.width
        return JSONResponse(_answer(model.name, vectors, fields.encoding_format, sum(map(len, texts))))

    return Route("/v1/embeddings", embeddings, methods=["POST"])


def _tokens(model: ServedEncoder, inputs: Sequence[str | list[int]]) -> list[list[int]]:
    """Each text's tokens: those given are taken as they are, a text is put into the model's frame.

    Raises:
        RequestError: A text is too long, or a token id is none of the model's.
    """
    tokens = []
    vocab_size = model.tokenizer.vocab_size
    for i, text in enumerate(inputs):
        if isinstance(text, str) and model.tokenizer.exceeds(text, model.max_tokens):
            raise _too_long(f"of {len(text)} characters has more than {2 * model.max_tokens} tokens", i, model)
        ids = model.tokenizer.encode_framed(text) if isinstance(text, str) else text
        wrong = next((token for token in ids if not 0 <= token < vocab_size), None)
        if wrong is not None:
            raise RequestError(
                f"the token id {wrong} is none of the model's, which go from 0 to {vocab_size - 1}",
                where=f"input[{i}]",
                code="invalid_value",
                param="input",
            )
        if len(ids) > model.max_tokens:
            raise _too_long(f"has {len(ids)} tokens", i, model)
        tokens.append(ids)
    return tokens


def _too_long(what: str, i: int, model: ServedEncoder) -> RequestError:
    return RequestError(
        f"the text {what}, the model {model.name!r} takes {model.max_tokens} at most",
        where=f"input[{i}]",
        remedy="shorten it, or embed its parts; nothing is cut silently",
        code="context_length_exceeded",
        param="input",
    )


def _check_dimensions(asked: int | None, width: int) -> None:
    if asked is not None and asked != width:
        raise RequestError(
            f"the model's vectors have {width} dimensions and mean nothing when they are cut",
            where="dimensions",
            remedy="leave it out",
            code="unsupported_value",
            param="dimensions",
        )


def _finite(vectors: Vectors) -> Vectors | ChipwiseError:
    if np.isfinite(vectors).all():
        return vectors
    return EngineError("the encoder gave vectors that are no numbers")


def _answer(name: str, vectors: Vectors, form: str | None, tokens: int) -> dict[str, Any]:
    """OpenAI's object. Base64 is of float32 in little-endian order."""
    shown = (
        [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]
        if form == "base64"
        else vectors.tolist()
    )
    data = [{"object": "embedding", "index": i, "embedding": value} for i, value in enumerate(shown)]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": name, "usage": usage}
