from __future__ import annotations

from typing import Any

import pytest

from chipwise.errors import RequestError
from chipwise.serve.text.grammar import Grammars
from chipwise.serve.text.idle_keywords import without_idle_keywords
from chipwise.serve.text.vocabulary import Vocabulary
from tests.serve.fakes import EOS, VOCAB, byte_tokenizer

BYTES = Grammars(Vocabulary(byte_tokenizer()), VOCAB, (EOS,))
PLACES = [
    lambda inner: inner,
    lambda inner: {"type": "object", "properties": {"a": inner}, "required": ["a"]},
    lambda inner: {"type": "object", "patternProperties": {"^a": inner}, "additionalProperties": False},
    lambda inner: {"type": "object", "additionalProperties": inner},
    lambda inner: {"type": "array", "items": inner},
    lambda inner: {"type": "array", "prefixItems": [inner]},
    lambda inner: {"anyOf": [{"type": "null"}, inner]},
    lambda inner: {"allOf": [inner]},
    lambda inner: {"$defs": {"a": {"definitions": {}, **inner}}, "$ref": "#/$defs/a"},
]
KEYWORDS = [
    ({"type": "array", "items": {"type": "integer"}}, "uniqueItems", [False], [True, 0, None]),
    (
        {"type": "object", "additionalProperties": {"type": "integer"}},
        "propertyNames",
        [True, {}, {"type": "string"}],
        [False, {"type": "string", "maxLength": 2}, 1],
    ),
    ({"type": "object"}, "unevaluatedProperties", [True, {}], [False, {"type": "integer"}, 1]),
    ({"type": "array"}, "unevaluatedItems", [True, {}], [False, {"type": "integer"}]),
    ({"type": "object"}, "dependentRequired", [{}], [{"a": ["b"]}]),
    ({"type": "object"}, "dependentSchemas", [{}], [{"a": False}]),
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("plain", "keyword", "idle", "other"), KEYWORDS, ids=[one[1] for one in KEYWORDS])
def test_a_keyword_that_asks_for_nothing_is_taken_wherever_it_stands(
    place: Any, plain: dict[str, Any], keyword: str, idle: list[Any], other: list[Any]
) -> None:
    for value in idle:
        schema = place({**plain, keyword: value})
        assert without_idle_keywords(schema) == place(plain)
        BYTES.of_schema(schema, "here")
    for value in other:
        schema = place({**plain, keyword: value})
        assert without_idle_keywords(schema) == schema
        with pytest.raises(RequestError, match=keyword):
            BYTES.of_schema(schema, "here")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"uniqueItems": False, "a": {"const": {"uniqueItems": False}}}},
        {"enum": [{"uniqueItems": False}, 1]},
        {"default": {"propertyNames": {}}, "examples": [{"uniqueItems": False}], "type": "object"},
        {"type": "object", "additionalProperties": False, "items": "nonsense", "anyOf": 3, "properties": [1]},
        True,
    ],
)
def test_what_only_reads_like_a_keyword_stays(schema: Any) -> None:
    assert without_idle_keywords(schema) == schema
