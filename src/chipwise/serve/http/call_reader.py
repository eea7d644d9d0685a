"""CallReader: tells tool calls from text in an answer, as it comes."""

from __future__ import annotations

import json
from collections.abc import Container
from dataclasses import dataclass
from typing import Literal
from uuid import uuid4

from chipwise.serve.text.call_form import CallForm

_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class Call:
    """A call that is whole.

    Attributes:
        id: Its id, by which its result will be named.
        name: The tool.
        arguments: Its arguments, an object as JSON.
    """

    id: str
    name: str
    arguments: str


class CallReader:
    """Lets text through that is part of no call. What looks like one and is none in the end is text again.

    A call is told of when it is whole, so that nothing is taken back. Spaces around calls are dropped.

    Args:
        form: How the model writes a call.
        names: The tools there are: a call of another is text.
    """

    def __init__(self, form: CallForm, names: Container[str]) -> None:
        self._form = form
        self._names = names
        self._held = ""
        self._state: Literal["text", "call", "after"] = "text"
        self._said = False  # whether any text came since the start or the last call
        self.n_calls = 0

    def push(self, text: str) -> tuple[str, list[Call]]:
        """Take the next text; the text that may be sent, and the calls that became whole."""
        self._held += text
        # A call can only become whole with a bracket, and be found to be none with the end of its mark.
        return self._read(closing="}" in text or ">" in text)

    def flush(self) -> tuple[str, list[Call]]:
        """The rest, when the answer is over."""
        said, calls = self._read(closing=True)
        rest, self._held = self._held, ""
        if self._state == "call":
            return said + self._form.marker + rest, calls
        lost = not rest.strip() and self.n_calls and not self._said
        return said + ("" if lost or self._state == "after" else rest), calls

    def _read(self, *, closing: bool) -> tuple[str, list[Call]]:
        said, calls = "", list[Call]()
        before = None
        while before != (self._state, self._held):
            before = (self._state, self._held)
            if self._state == "text":
                said += self._text()
            elif self._state == "after":
                self._after()
            elif closing:
                found = self._call()
                calls += [found] if isinstance(found, Call) else []
                said += found if isinstance(found, str) else ""
        return said, calls

    def _text(self) -> str:
        """Take text up to where a call begins or may begin."""
        marker, held = self._form.marker, self._held
        if not self._said and (not held.strip() or (not marker and held.lstrip().startswith("{"))):
            self._state = "call" if held.strip() else "text"
            return ""
        at = held.find(marker) if marker else -1
        if at >= 0:
            self._state, self._held = "call", held[at + len(marker) :]
            before = held[:at]
        else:
            most = min(len(marker) - 1, len(held))
            keep = next((n for n in range(most, 0, -1) if marker.startswith(held[-n:])), 0)
            before, self._held = held[: len(held) - keep], held[len(held) - keep :]
        if not self._said and not before.strip():
            # Spaces may yet turn out to stand before a call; those that stand before a text come with it.
            self._held = self._held if at >= 0 else before + self._held
            return ""
        self._said = True
        return before

    def _call(self) -> Call | str:
        """The call that is held; the text it is if it is none; nothing if it is not whole yet."""
        marker, end_marker, held = self._form.marker, self._form.end_marker, self._held
        try:
            value, end = _DECODER.raw_decode(held, len(held) - len(held.lstrip()))
        except json.JSONDecodeError as e:
            at = held.find(end_marker) if end_marker else -1
            # The mark may also stand in a string of the call; it ends what went wrong before it.
            if at < e.pos or e.msg.startswith("Unterminated"):
                return ""
            value, end = None, at + len(end_marker)
        except (RecursionError, ValueError):  # nested deeper than any call, or a number longer than Python reads
            value, end = None, len(held)
        self._held = held[end:]
        call = self._of(value)
        if call is None:
            self._state, self._said = "text", True
            return marker + held[:end]
        self.n_calls += 1
        self._state, self._said = "after", False
        return call

    def _after(self) -> None:
        """Drop what belongs to the call that came: spaces and its end mark."""
        end_marker, held = self._form.end_marker, self._held.lstrip()
        if end_marker.startswith(held) and held != end_marker:
            self._held = held
            return
        self._state, self._held = "text", held.removeprefix(end_marker)

    def _of(self, value: object) -> Call | None:
        if not isinstance(value, dict):
            return None
        name, arguments = value.get(self._form.name_key), value.get(self._form.arguments_key, {})
        if not isinstance(name, str) or name not in self._names or not isinstance(arguments, dict):
            return None
        try:
            text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
            text.encode()
        except UnicodeEncodeError:  # half a surrogate pair, which only an escape can write
            text = json.dumps(arguments)
        except ValueError:
            return None
        return Call(f"call_{uuid4().hex[:24]}", name, text)
