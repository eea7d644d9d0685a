from __future__ import annotations

import pytest

from chipwise import errors
from chipwise.engine.isolated.wire import error_message, raise_error, receive, send, wire
from chipwise.errors import ChipwiseError, EngineError, InputError


def test_messages_stay_apart_and_the_end_is_none() -> None:
    ours, theirs = wire()
    with theirs:
        with ours:
            send(ours, {"do": "step", "rows": 3})
            send(ours, {})
            assert receive(theirs) == {"do": "step", "rows": 3}
            assert receive(theirs) == {}
        assert receive(theirs) is None


@pytest.mark.parametrize("data", [b"\xff", b"[1]", b"{", b"[" * 100_000])
def test_what_is_no_message_is_refused(data: bytes) -> None:
    ours, theirs = wire()
    with ours, theirs:
        ours.send(data)
        with pytest.raises(EngineError, match="a message of its process"):
            receive(theirs)


def test_what_is_no_json_is_not_sent() -> None:
    ours, theirs = wire()
    with ours, theirs, pytest.raises(InputError, match="cannot be handed to a process of its own"):
        send(ours, {"options": {"next_token": len}})


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name != "ChipwiseError"])
def test_every_error_comes_out_as_it_went_in(name: str) -> None:
    error = getattr(errors, name)("what", where="where", remedy="do")
    with pytest.raises(type(error)) as caught:
        raise_error(error_message(error))
    assert str(caught.value) == str(error)


def test_an_error_of_nobodys_own_is_the_engines() -> None:
    with pytest.raises(EngineError, match="ValueError: x"):
        raise_error(error_message(ValueError("x" * 100_000)))
    with pytest.raises(EngineError, match="odd"):
        raise_error({"error": {"type": "annotations", "what": "odd", "where": None, "remedy": None}})
    raise_error({})
    assert issubclass(EngineError, ChipwiseError)
