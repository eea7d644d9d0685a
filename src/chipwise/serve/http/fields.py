"""The fields that a chat and a completion have in common, read strictly from JSON."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from chipwise.errors import RequestError
from chipwise.serve.http.unsupported import refuse_unsupported
from chipwise.serve.http.urgency import DeadlineField, PriorityField
from chipwise.serve.text.sampling import SamplingParams

_MAX_STOPS = 4
_MAX_STOP_CHARS = 1024
_INT64 = (1 << 63) - 1


def _stops(value: Any) -> Any:
    stops = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise PydanticCustomError("stop", "should be a string or a list of strings")
    if len(stops) > _MAX_STOPS:
        raise PydanticCustomError("stop", f"holds {len(stops)} strings, at most {_MAX_STOPS} are taken")
    if "" in stops:
        raise PydanticCustomError("stop", "holds an empty string, which would end every answer at once")
    if max(map(len, stops), default=0) > _MAX_STOP_CHARS:
        raise PydanticCustomError("stop", f"holds a string of more than {_MAX_STOP_CHARS} characters")
    return tuple(stops)


class StreamOptions(BaseModel):
    """What a stream carries besides text."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    include_usage: bool | None = None


class AnswerFields(BaseModel):
    """How an answer is to be made. Unknown fields are kept aside; ``read_fields`` looks at them."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    model: str | None = None
    max_tokens: Annotated[int, Field(ge=1, le=_INT64)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    seed: Annotated[int, Field(ge=-_INT64 - 1, le=_INT64)] | None = None
    stop: Annotated[tuple[str, ...], BeforeValidator(_stops)] = ()
    n: Annotated[int, Field(ge=1)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    priority: PriorityField | None = None
    deadline_ms: DeadlineField | None = None

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with the token counts."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def wanted_tokens(self) -> int | None:
        """The most tokens the answer may have; None takes what fits."""
        return self.max_tokens

    @property
    def n_logprobs(self) -> int | None:
        """How many likeliest tokens are reported beside each chosen one; None reports nothing."""
        return None

    @property
    def sampling(self) -> SamplingParams:
        """How tokens are chosen, with OpenAI's defaults."""
        return SamplingParams(
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            seed=self.seed,
            logprobs=self.n_logprobs,
        )


Fields = TypeVar("Fields", bound=AnswerFields)
Form = TypeVar("Form", bound=BaseModel)


def read_fields(kind: type[Fields], body: bytes) -> Fields:
    """Read a request's body.

    Raises:
        RequestError: It is no JSON, a field is of the wrong type or value, or asks for what is not supported.
    """
    fields = read_form(kind, body)
    refuse_unsupported(fields.model_extra or {})
    if fields.stream_options is not None and not fields.stream:
        raise RequestError("only a stream takes them", where="stream_options", param="stream_options")
    return fields


def read_form(kind: type[Form], body: bytes) -> Form:
    """Read a body of JSON.

    Raises:
        RequestError: It is no JSON, or a field is of the wrong type or value.
    """
    try:
        return kind.model_validate_json(body)
    except ValidationError as e:
        raise _request_error(e.errors(include_url=False, include_input=False)[0]) from e


def path_of(location: tuple[int | str, ...]) -> str:
    """A place in JSON as people write it: ``messages[0].content``."""
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


def _request_error(error: ErrorDetails) -> RequestError:
    path = path_of(error["loc"])
    code = {"json_invalid": "invalid_json", "missing": "missing_field"}.get(error["type"], "invalid_value")
    message = error["msg"]
    return RequestError(message[:1].lower() + message[1:], where=path or "body", code=code, param=path or None)
