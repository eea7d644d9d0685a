from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.errors import EngineError, RequestError
from chipwise.model.tokenizer import SpecialTokens, Tokenizer, load_fast_tokenizer
from chipwise.serve.text.grammar import Grammar, Grammars, schema_text
from chipwise.serve.text.vocabulary import Vocabulary
from tests.serve.fakes import EOS, VOCAB, byte_tokenizer

BYTES = Grammars(Vocabulary(byte_tokenizer()), VOCAB, (EOS,))
POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "name": {"enum": ["a", "é"]}},
    "required": ["x"],
    "additionalProperties": False,
}


def said(grammar: Grammar, tokens: list[int]) -> Any:
    """The state after some tokens, each of which must have been allowed."""
    state = grammar.start()
    for token in tokens:
        assert state.allowed()[token], bytes(t for t in tokens if t < 256)
        state.advance(token)
    return state


def walk(grammar: Grammar, vocabulary: Vocabulary, eos_ids: tuple[int, ...], chance: np.random.Generator) -> bytes:
    """A text that the grammar allows, chosen blindly, but for an end as soon as there may be one."""
    state, text = grammar.start(), b""
    for _ in range(3000):
        allowed = np.flatnonzero(state.allowed())
        if any(i in eos_ids for i in allowed):
            return text
        # Closing ones are preferred, or a blind walk would open brackets for ever.
        closing = [i for i in allowed if vocabulary.token_bytes(int(i))[:1] in (b"]", b"}", b'"')]
        token = int(chance.choice(closing if closing and chance.random() < 0.6 else allowed))
        assert vocabulary.token_bytes(token)
        text += vocabulary.token_bytes(token)
        state.advance(token)
        if state.complete:
            return text
    raise AssertionError(f"no end: {text[:200]!r}")


SCALARS = st.sampled_from(
    [
        {"type": "integer", "minimum": -3, "maximum": 12},
        {"type": "boolean"},
        {"type": "null"},
        {"enum": ["on", "off", 3, None, 'qu"ote', "世界"]},
        {"const": {"a": [1, "b"]}},
        {"type": "string", "maxLength": 4},
        {"type": "string", "pattern": "^[a-c]{1,3}$"},
        {"type": "string", "format": "date"},
        {"type": ["integer", "null"], "minimum": 0, "maximum": 9},
    ]
)


def _nested(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    arrays = st.builds(
        lambda items, least, more: {"type": "array", "items": items, "minItems": least, "maxItems": least + more},
        inner,
        st.integers(0, 2),
        st.integers(0, 2),
    )
    objects = st.builds(
        lambda fields, n: {
            "type": "object",
            "properties": fields,
            "required": list(fields)[:n],
            "additionalProperties": False,
        },
        st.dictionaries(st.sampled_from(["a", "bc", "d e", "ü"]), inner, max_size=3),
        st.integers(0, 3),
    )
    return arrays | objects | st.builds(lambda several: {"anyOf": several}, st.lists(inner, min_size=1, max_size=3))


@given(st.recursive(SCALARS, _nested, max_leaves=6), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_whatever_a_grammar_lets_through_is_valid(schema: dict[str, Any], seed: int) -> None:
    grammar = BYTES.of_schema(schema, "here")
    text = walk(grammar, Vocabulary(byte_tokenizer()), (EOS,), np.random.default_rng(seed)).decode()
    jsonschema.validate(json.loads(text), schema)


def test_tokens_of_several_bytes_and_tokens_that_say_nothing(home_agent: Path) -> None:
    eos = 2
    tokenizer = Tokenizer(load_fast_tokenizer(home_agent / "tokenizer.json"), SpecialTokens(None, (eos,), None, False))
    vocabulary = Vocabulary(tokenizer)
    # Logits behind the tokenizer's ids belong to a padded embedding.
    grammars = Grammars(vocabulary, tokenizer.vocab_size + 5, (eos,))
    for seed in range(5):
        text = walk(grammars.of_schema(POINT, "here"), vocabulary, (eos,), np.random.default_rng(seed)).decode()
        jsonschema.validate(json.loads(text), POINT)
    allowed = grammars.of_schema(POINT, "here").start().allowed()
    assert allowed.shape == (tokenizer.vocab_size + 5,)
    assert {vocabulary.token_bytes(int(i))[:1] for i in np.flatnonzero(allowed)} == {b"{"}
    # No way of cutting a text into tokens is forced upon the model.
    state = grammars.of_schema({"const": "kitchen"}, "here").start()
    state.advance(tokenizer.encode('"')[0])
    found = {vocabulary.token_bytes(int(i)) for i in np.flatnonzero(state.allowed())}
    assert {b"k", b"kitchen"} <= found


def test_ends_where_nothing_may_follow() -> None:
    grammar = BYTES.of_schema(POINT, "here")
    assert not said(grammar, list(b'{"x":1')).complete
    assert said(grammar, list(b'{"x": 1}')).complete
    assert said(grammar, list('{ "x" : 1 ,\n"name":"é"}'.encode())).complete


def test_an_end_token_is_allowed_only_where_the_text_is_whole() -> None:
    grammar = BYTES.of_schema({"type": "integer"}, "here")
    assert not said(grammar, list(b"-")).allowed()[EOS]
    state = said(grammar, list(b"-1"))
    assert state.allowed()[EOS]
    assert state.allowed()[ord("2")]
    assert not state.complete
    state.advance(EOS)


def test_spaces_come_to_an_end() -> None:
    state = said(BYTES.of_schema(POINT, "here"), list(b"{" + b" " * 32))
    assert np.flatnonzero(state.allowed()).tolist() == [ord('"')]


def test_answers_do_not_share_their_state() -> None:
    grammar = BYTES.of_schema(POINT, "here")
    first, second = said(grammar, list(b'{"x":')), grammar.start()
    assert np.flatnonzero(second.allowed()).tolist() == [ord("{")]
    assert first.allowed()[ord("7")]


def test_a_token_that_is_not_allowed_is_an_error() -> None:
    with pytest.raises(EngineError, match="cannot be followed"):
        BYTES.of_schema(POINT, "here").start().advance(ord("["))


def without(byte: str) -> Grammars:
    """Grammars for a model that has no token for a byte."""

    class Lacking(Vocabulary):
        def token_bytes(self, token_id: int) -> bytes:
            return b"" if token_id == ord(byte) else super().token_bytes(token_id)

    return Grammars(Lacking(byte_tokenizer()), VOCAB, (EOS,))


def test_a_grammar_that_no_token_can_follow_is_an_error() -> None:
    state = said(without("2").of_schema({"enum": [12, 32]}, "here"), [ord("1")])
    with pytest.raises(EngineError, match="grammar"):
        state.allowed()


def test_a_grammar_that_no_token_begins_is_refused() -> None:
    with pytest.raises(RequestError, match="cannot be enforced"):
        without("{").of_schema(POINT, "here")


def test_a_model_without_an_end_cannot_keep_to_a_grammar() -> None:
    with pytest.raises(RequestError, match="no end token"):
        Grammars(Vocabulary(byte_tokenizer()), VOCAB, ()).of_schema(POINT, "here")


def test_the_latest_are_remembered() -> None:
    grammars = Grammars(Vocabulary(byte_tokenizer()), VOCAB, (EOS,))
    first = grammars.of_schema(POINT, "here")
    assert grammars.of_schema(POINT, "here") is first
    for i in range(32):
        grammars.of_schema({"const": i}, "here")
    assert grammars.of_schema(POINT, "here") is not first


def test_an_error_names_the_field_on_one_line() -> None:
    with pytest.raises(RequestError) as caught:
        BYTES.of_schema({"type": "string", "pattern": "(?<=a)" + "b" * 1000}, "tools[0]")
    assert (caught.value.where, caught.value.code) == ("tools[0]", "unsupported_schema")
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "array", "uniqueItems": True}, 'Unimplemented keys: ["uniqueItems"]'),
        ({"type": "string", "format": "isbn"}, "Unknown format: isbn"),
        ({"type": "strin"}, "Invalid type: strin"),
        ({"type": "integer", "minimum": 5, "maximum": 3}, "Unsatisfiable schema: minimum (5) is greater than maximum"),
        ({"$ref": "#/$defs/none"}, "Pointer '/$defs/none' does not exist"),
        ({"pattern": "(?=a)b"}, "look-around, including look-ahead and look-behind, is not supported"),
        ({"$ref": "#"}, "nothing can begin under it"),
    ],
)
def test_an_error_tells_of_the_clients_schema_and_not_of_the_text_it_was_put_into(
    schema: dict[str, Any], says: str
) -> None:
    with pytest.raises(RequestError) as caught:
        BYTES.of_schema(schema, "here")
    assert says in str(caught.value)
    assert not any(ours in str(caught.value) for ours in ("x-guidance", "%llguidance", "%json", "at 2("))


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(1000)}},
    ],
    ids=["itself", "in a circle", "too many properties"],
)
def test_a_schema_that_compiles_and_cannot_be_followed_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="cannot be enforced") as caught:
        BYTES.of_schema(schema, "response_format")
    assert (caught.value.code, caught.value.param) == ("unsupported_schema", "response_format")


def test_who_asks_for_a_known_grammar_waits_for_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    known = BYTES.of_schema(POINT, "x")
    compiling, done = threading.Event(), threading.Event()

    def slow(grammars: Grammars, text: str, where: str) -> Grammar:
        compiling.set()
        assert done.wait(10)
        return compile_(grammars, text, where)

    compile_ = Grammars._compile
    monkeypatch.setattr(Grammars, "_compile", slow)
    other = threading.Thread(target=BYTES.of_schema, args=({"const": "slow to compile"}, "x"))
    other.start()
    assert compiling.wait(10)
    found: list[Grammar] = []
    asking = threading.Thread(target=lambda: found.append(BYTES.of_schema(POINT, "x")))
    asking.start()
    asking.join(5)
    waited = asking.is_alive()
    done.set()
    other.join(10)
    asking.join(10)
    assert not waited
    assert found == [known]


def test_what_the_first_grammar_needs_is_there_before_if_it_is_little() -> None:
    grammars = Grammars(Vocabulary(byte_tokenizer()), VOCAB, (EOS,))
    grammars.make_ready()
    assert grammars._known("start: %json " + schema_text({"type": "object"})) is not None
    large = Grammars(Vocabulary(byte_tokenizer()), 100_000, (EOS,))
    large.make_ready()
    assert large._tokens is None
    # A model without an end token is served, too.
    Grammars(Vocabulary(byte_tokenizer()), VOCAB, ()).make_ready()


@pytest.mark.parametrize(("vocab_size", "eos_ids"), [(128, (EOS,)), (5, (3,)), (1, (0,)), (VOCAB, (EOS, 10**6))])
def test_a_vocabulary_that_json_cannot_be_written_in_keeps_no_server_from_starting(
    vocab_size: int, eos_ids: tuple[int, ...]
) -> None:
    grammars = Grammars(Vocabulary(byte_tokenizer()), vocab_size, eos_ids)
    grammars.make_ready()
    if vocab_size < VOCAB:
        with pytest.raises(RequestError):
            grammars.of_schema({"type": "object"}, "response_format")


def test_what_a_refused_schema_shows_costs_no_more_than_reading_it() -> None:
    """A pattern that looked at each line's spaces from each line on held the interpreter's lock for seconds."""
    started_s = time.process_time()
    with pytest.raises(RequestError, match="cannot be enforced"):
        BYTES.of_schema({"type": "string", "format": "x" + "\n" * 100_000 + "y"}, "here")
    assert time.process_time() - started_s < 5
