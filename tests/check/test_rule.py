from __future__ import annotations

from collections.abc import Iterator

import pytest

from chipwise.check.check_input import CheckInput
from chipwise.check.rule import Hit, rule
from tests.check.graphs import given_decoder, target


@rule
def too_blue(given: CheckInput) -> Iterator[Hit]:
    """The model is too blue.

    Why: Blue models
    fade.

    Limit: The paint's data sheet.

    Remedy: Paint it.
    """
    yield Hit("warning", given.name, "7 blue", "5 blue")
    yield Hit("error", "layer", "9 blue", "5 blue", "far too blue", "Throw it away.")


def test_a_finding_takes_its_words_from_the_docstring() -> None:
    first, second = too_blue(given_decoder(target()))
    assert first.to_dict() == {
        "rule": "too_blue",
        "severity": "warning",
        "where": "tiny",
        "measured": "7 blue",
        "limit": "5 blue",
        "message": "The model is too blue",
        "remedy": "Paint it",
    }
    assert (second.message, second.remedy) == ("The model is too blue: far too blue", "Throw it away")


def test_sections_are_joined_to_lines() -> None:
    assert too_blue.why == "Blue models fade."


def test_a_docstring_without_a_remedy_is_no_rule() -> None:
    def silent(given: CheckInput) -> Iterator[Hit]:
        """Something is wrong.

        Why: Because.

        Limit: None.
        """
        yield from ()

    with pytest.raises(ValueError, match="lacks Remedy"):
        rule(silent)


def test_a_paragraph_of_another_kind_is_refused() -> None:
    def chatty(given: CheckInput) -> Iterator[Hit]:
        """Something is wrong.

        By the way: nothing.
        """
        yield from ()

    with pytest.raises(ValueError, match="starts with none of"):
        rule(chatty)
