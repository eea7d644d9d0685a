from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from chipwise.serve.http.sse import TextEvents, event


@given(st.text() | st.text('\r\n\u2028\u2029\x85\x00\x0b\x1e"\\{}', max_size=10))
def test_event_is_one_line_for_every_reader(text: str) -> None:
    written = event({"text": text}).decode()
    assert written.splitlines() == [written[:-2], ""]
    assert json.loads(written.removeprefix("data: ")) == {"text": text}


@given(st.text() | st.text('\r\n\u2028\u2029\x85\x00\x0b\x1e"\\{}', max_size=10), st.text())
def test_text_event_is_the_event_with_that_text(text: str, name: str) -> None:
    def data(said: str) -> dict[str, object]:
        return {"model": name, "choices": [{"delta": {"content": said}, "reason": None}], "usage": None}

    assert TextEvents(data).event(text) == event(data(text))


def test_chinese_stays_readable() -> None:
    assert "世界🦊" in event({"text": "世界🦊"}).decode()
