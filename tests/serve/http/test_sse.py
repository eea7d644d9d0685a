from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from chipwise.serve.http.sse import event


@given(st.text() | st.text('\r\n\u2028\u2029\x85\x00\x0b\x1e"\\{}', max_size=10))
def test_event_is_one_line_for_every_reader(text: str) -> None:
    written = event({"text": text}).decode()
    assert written.splitlines() == [written[:-2], ""]
    assert json.loads(written.removeprefix("data: ")) == {"text": text}


def test_chinese_stays_readable() -> None:
    assert "世界🦊" in event({"text": "世界🦊"}).decode()
