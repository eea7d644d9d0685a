"""What was answered under a grammar before is looked up for the next answer, each client's for itself."""

from __future__ import annotations

import json

import numpy as np
import pytest

from chipwise.serve.speculation.acceptance import Acceptance
from chipwise.serve.speculation.drafter import Drafter
from chipwise.serve.speculation.earlier_answers import NOTHING, EarlierAnswers
from chipwise.serve.speculation.forced_text import ForcedText
from tests.serve.speculation.test_grammar_drafts import COMMAND, grammars, tokenizer, vocabulary, written

PROMPT = [900, 901, 902, 903, 904, 905, 906, 907, 908, 909]


def ids(text: str) -> list[int]:
    return list(tokenizer().encode(text))


def test_the_latest_answer_of_a_client_under_a_grammar_is_found() -> None:
    earlier, grammar = EarlierAnswers(), grammars().of_schema(COMMAND, "here")
    for value in (5, 6):
        earlier.keep("anna", grammar, np.array([*PROMPT, value, value]), 2)
    # The end of the prompt stands before it.
    assert earlier.of("anna", grammar).tolist() == [*PROMPT[-8:], 6, 6]


def test_no_answer_is_found_for_another_client_or_grammar_or_for_free_text() -> None:
    earlier, grammar = EarlierAnswers(), grammars().of_schema(COMMAND, "here")
    other = grammars().of_schema({"type": "integer"}, "here")
    earlier.keep("anna", grammar, np.array([*PROMPT, 5]), 1)
    earlier.keep("anna", None, np.array([*PROMPT, 5]), 1)
    assert not len(earlier.of("berta", grammar))
    assert not len(earlier.of("anna", other))
    assert not len(earlier.of("anna", None))


def test_what_is_kept_is_a_copy_and_bounded() -> None:
    earlier, grammar = EarlierAnswers(), grammars().of_schema(COMMAND, "here")
    tokens = np.arange(5000)
    earlier.keep("anna", grammar, tokens, 4000)
    tokens[:] = 0
    kept = earlier.of("anna", grammar)
    assert len(kept) == 512
    assert kept[:9].tolist() == list(range(992, 1001))
    for client in range(100):
        earlier.keep(str(client), grammar, np.array([*PROMPT, client]), 1)
    assert sum(bool(len(earlier.of(str(client), grammar))) for client in range(100)) == 32
    assert len(earlier.of("99", grammar))
    assert not len(earlier.of("anna", grammar))


@pytest.mark.parametrize("separator", [": ", ":\n    ", ":"])
def test_what_a_grammar_leaves_open_comes_as_it_came_before(separator: str) -> None:
    grammar = grammars().of_schema(COMMAND, "here")
    before = ids('{"action"%s"turn_on", "device"%s"kitchen lamp", "brightness"%s40}' % ((separator,) * 3))
    start = next(k for k in range(len(before)) if "action" in written(before[:k]))
    state = grammar.start().after(before[:start])
    said = np.array([*PROMPT, *before[:start]])
    forced = ForcedText(tokenizer(), vocabulary())
    alone = Drafter(Acceptance(), state, forced, NOTHING).draft(said, 6)
    after = Drafter(Acceptance(), state, forced, np.array([*PROMPT[-8:], *before])).draft(said, 6)
    assert len(alone) < len(after) == 6
    assert list(after.tokens) == before[start : start + 6]


def test_an_earlier_value_that_the_grammar_forbids_is_not_guessed() -> None:
    grammar = grammars().of_schema({**COMMAND, "properties": {**COMMAND["properties"], "action": {"const": "no"}}}, "x")
    earlier = np.array([*PROMPT[-8:], *ids(json.dumps({"action": "turn_on"}))])
    drafter = Drafter(Acceptance(), grammar.start(), ForcedText(tokenizer(), vocabulary()), earlier)
    assert "turn" not in written(drafter.draft(np.array(PROMPT), 12).tokens)
