from __future__ import annotations

import inspect

import pytest

from chipwise import errors
from chipwise.errors import ChipwiseError, GateFailedError, InputError, RequestError

TREE = [getattr(errors, name) for name in errors.__all__]


def test_all_names_are_declared_and_nothing_else() -> None:
    defined = {n for n, c in vars(errors).items() if inspect.isclass(c) and issubclass(c, Exception)}
    assert defined == set(errors.__all__)


@pytest.mark.parametrize("cls", TREE)
def test_every_error_is_a_chipwise_error_with_a_name_and_exit_code(cls: type[ChipwiseError]) -> None:
    assert issubclass(cls, ChipwiseError)
    assert cls.__name__.endswith("Error")
    expected = 2 if issubclass(cls, InputError) else 1 if issubclass(cls, GateFailedError) else 3
    assert cls("x").exit_code == expected


@pytest.mark.parametrize(
    ("where", "remedy", "text"),
    [
        (None, None, "too big"),
        ("a.onnx", None, "a.onnx: too big"),
        (None, "cut it", "too big; cut it"),
        ("a.onnx", "cut it", "a.onnx: too big; cut it"),
    ],
)
def test_text_says_where_what_and_what_to_do(where: str | None, remedy: str | None, text: str) -> None:
    error = ChipwiseError("too big", where=where, remedy=remedy)
    assert str(error) == text
    assert (error.what, error.where, error.remedy) == ("too big", where, remedy)


def test_text_is_one_line_whatever_came_in() -> None:
    assert str(ChipwiseError("a\nb\t c", where="d\n")) == "d : a b c"


def test_request_error_keeps_what_the_client_is_told() -> None:
    error = RequestError("too long", code="context_length_exceeded", param="messages")
    assert (error.code, error.param, error.exit_code) == ("context_length_exceeded", "messages", 2)
