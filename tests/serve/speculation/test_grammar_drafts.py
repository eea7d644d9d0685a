"""Forced text as a guess: right where the model cuts it as its tokenizer does, harmless where it does not."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.engine.null import NullOptions, NullSession
from chipwise.model.tokenizer import SpecialTokens, Tokenizer, load_fast_tokenizer
from chipwise.serve.schedule.speculation import make_speculation
from chipwise.serve.speculation.acceptance import Acceptance
from chipwise.serve.speculation.drafter import Drafter
from chipwise.serve.speculation.forced_text import ForcedText
from chipwise.serve.text.grammar import Grammars
from chipwise.serve.text.vocabulary import Vocabulary
from tests.serve.speculation.wild import WildBench
from tests.serve.text.test_grammar import SCALARS, _nested

END = 2
COMMAND = {
    "type": "object",
    "properties": {
        "action": {"enum": ["turn_on", "turn_off"]},
        "device": {"const": "kitchen lamp"},
        "brightness": {"type": "integer", "minimum": 0, "maximum": 100},
    },
    "required": ["action", "device", "brightness"],
    "additionalProperties": False,
}


@cache
def tokenizer() -> Tokenizer:
    path = Path(__file__).parents[3] / "models" / "home_agent" / "tokenizer.json"
    return Tokenizer(load_fast_tokenizer(path), SpecialTokens(None, (END,), None, False))


@cache
def vocabulary() -> Vocabulary:
    return Vocabulary(tokenizer())


@cache
def grammars() -> Grammars:
    return Grammars(vocabulary(), tokenizer().vocab_size, (END,))


def written(ids: Any) -> str:
    return b"".join(vocabulary().token_bytes(i) for i in ids).decode()


def drafted(said: str, most: int = 40) -> Any:
    state = grammars().of_schema(COMMAND, "here").start()
    ids = tokenizer().encode(said)
    for token in ids:
        state.advance(token)
    drafter = Drafter(Acceptance(), state, ForcedText(tokenizer(), vocabulary()))
    before = state.allowed()
    draft = drafter.draft(np.array([5, 6, *ids]), most)
    assert np.array_equal(state.allowed(), before), "guessing moved the state"
    return draft


def test_forced_text_is_cut_as_the_tokenizer_cuts_it() -> None:
    draft = drafted('{"action": "turn_on", "device": "')
    whole = tokenizer().encode('{"action": "turn_on", "device": "kitchen lamp"')
    start = len(tokenizer().encode('{"action": "turn_on", "device": "'))
    # The quote at its end may be part of a longer token, so it is not guessed.
    assert list(draft.tokens) == whole[start:-1]
    assert written(draft.tokens) == "kitchen lamp"
    assert set(draft.hints) == {"grammar"}


def test_no_more_than_asked_for_and_nothing_where_there_is_a_choice() -> None:
    assert len(drafted('{"action": "turn_on", "device": "', 2)) == 2
    assert len(drafted('{"action": "turn_on", "device": "kitchen lamp", "brightness": ')) == 0


def test_what_came_before_is_guessed_only_as_far_as_the_grammar_lets_it() -> None:
    state = grammars().of_schema(COMMAND, "here").start()
    drafter = Drafter(Acceptance(), state, ForcedText(tokenizer(), vocabulary()))
    earlier = tokenizer().encode('{"action": "turn_on", "device": "hall lamp"}\n{"action": "turn_on", "device":')
    said = tokenizer().encode('{"action": "turn_on", "device":')
    for token in said:
        state.advance(token)
    text = written(drafter.draft(np.array(earlier), 30).tokens)
    assert text.startswith(' "')
    assert "hall" not in text
    assert '"kitchen' in text


class Erratic:
    """A model that prefers other tokens at every place, whatever they cut: by a hash of all that was said."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, history: Any) -> int:
        return hash((self._seed, *history[-6:])) % tokenizer().vocab_size


def answer(schema: dict[str, Any], seed: int, *, speculate: bool) -> tuple[str, WildBench, Any]:
    options = NullOptions(
        vocab_size=tokenizer().vocab_size, next_token=Erratic(seed), decode_s=0.01, draft_s=0.0001, max_draft_tokens=63
    )
    session = NullSession(1, 512, options)
    speculation = make_speculation(session, tokenizer(), vocabulary()) if speculate else None
    bench = WildBench(session, speculation, tokenizer=tokenizer())
    ticket = bench.ask(tokenizer().encode("turn on"), 120, grammar=grammars().of_schema(schema, "here"))
    bench.run()
    return bench.text(ticket), bench, bench.end(ticket)


@given(st.recursive(SCALARS, _nested, max_leaves=6), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_texts_under_a_schema_are_the_same_with_guesses(schema: dict[str, Any], seed: int) -> None:
    """Greedy, by a model that mostly cuts forced text otherwise than the tokenizer."""
    expected, _, plain_end = answer(schema, seed, speculate=False)
    found, _, end = answer(schema, seed, speculate=True)
    assert (found, end) == (expected, plain_end)
    if end.reason == "stop":
        jsonschema.validate(json.loads(found), schema)


@pytest.mark.parametrize("seed", range(3))
def test_a_model_that_cuts_as_its_tokenizer_does_is_guessed_well(seed: int) -> None:
    """It writes this command, so most of what is forced is right."""
    text = '{"action": "turn_off", "device": "kitchen lamp", "brightness": 7}'
    prompt = tokenizer().encode("turn on")
    will_say = [*tokenizer().encode(text), END]
    options = NullOptions(
        vocab_size=tokenizer().vocab_size,
        next_token=lambda history: will_say[min(len(history) - len(prompt), len(will_say) - 1)],
        decode_s=0.01,
        draft_s=0.001,
        max_draft_tokens=63,
    )
    session = NullSession(1, 512, options)
    bench = WildBench(session, make_speculation(session, tokenizer(), vocabulary()), tokenizer=tokenizer())
    ticket = bench.ask(prompt, 120, grammar=grammars().of_schema(COMMAND, "here"))
    bench.run()
    assert bench.text(ticket) == text
    speculated, right = (bench.metrics.value(f"chipwise_{name}_tokens_total") for name in ("speculated", "accepted"))
    assert right >= 0.8 * speculated > 4
    assert session.steps < len(will_say) - right / 2
