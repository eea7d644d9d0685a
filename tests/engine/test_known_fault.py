from __future__ import annotations

from typing import Any

import pytest

from chipwise.engine.known_fault import Symptom, explained


class _Knows:
    def explain(self, symptom: Symptom) -> str | None:
        return "seen on Tuesdays" if symptom == "zeros" else None


class _Wraps:
    def __init__(self, session: object) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


@pytest.mark.parametrize(
    ("session", "symptom", "text"),
    [
        (_Knows(), "zeros", " (seen on Tuesdays)"),
        (_Knows(), "differs", ""),
        (object(), "zeros", ""),
        (_Wraps(_Knows()), "zeros", " (seen on Tuesdays)"),
        (_Wraps(object()), "zeros", ""),
    ],
)
def test_it_is_put_behind_the_message(session: object, symptom: Symptom, text: str) -> None:
    assert explained(session, symptom) == text
