"""Keywords of a JSON Schema that ask for nothing, with the values they then have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# llguidance refuses every keyword that it does not enforce, whatever its value. Generators of schemas write these out.
_IDLE: Mapping[str, tuple[Any, ...]] = {
    "uniqueItems": (False,),
    # Zod's records: a name is always a string.
    "propertyNames": (True, {}, {"type": "string"}),
    "unevaluatedProperties": (True, {}),
    "unevaluatedItems": (True, {}),
    "dependentRequired": ({},),
    "dependentSchemas": ({},),
}
_HOLD_ONE = ("items", "additionalItems", "additionalProperties", "contains", "not", "if", "then", "else")
_HOLD_SEVERAL = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_HOLD_NAMED = ("properties", "patternProperties", "$defs", "definitions")


def without_idle_keywords(schema: Any) -> Any:
    """The same schema without keywords that change nothing, itself and the schemas in it; what is no schema stays.

    Names of properties and values (``const``, ``enum``, ``default``, ...) that read like such keywords stay, too.
    """
    if not isinstance(schema, Mapping):
        return schema
    kept = {key: value for key, value in schema.items() if not _is_idle(key, value)}
    for key in _HOLD_ONE:
        if isinstance(kept.get(key), Mapping):
            kept[key] = without_idle_keywords(kept[key])
    for key in _HOLD_SEVERAL:
        if isinstance(several := kept.get(key), list):
            kept[key] = [without_idle_keywords(one) for one in several]
    for key in _HOLD_NAMED:
        if isinstance(named := kept.get(key), Mapping):
            kept[key] = {name: without_idle_keywords(one) for name, one in named.items()}
    return kept


def _is_idle(key: str, value: Any) -> bool:
    # False == 0 in Python, but not in JSON.
    return any(value == idle and type(value) is type(idle) for idle in _IDLE.get(key, ()))
