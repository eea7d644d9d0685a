"""Tool calls in the shapes models write them, compared by meaning."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chipwise.verify.keywords import normalise
from chipwise.verify.scoring.call_text import calls_as_json
from chipwise.verify.scoring.entity import USUAL
from chipwise.verify.scoring.json_meaning import differences
from chipwise.verify.scoring.json_text import read_json, twice_kept

_NAMES = ("tool", "name", "tool_name", "action", "function")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "action_input", "tool_input")
# The field that holds name and arguments; OpenAI's older one, too.
_HOLDERS = ("function", "function_call")
# What names a call itself, beside its function and arguments.
_MARKS = ("id", "call_id", "tool_call_id", "type", "index")


# An object whose names have no quotes was to be a call.
_WITHOUT_QUOTES = re.compile(r"\{\s?(?:name|tool|tool_name|tool_calls|function|action)\s?:")


@dataclass(frozen=True)
class ToolCall:
    """A call: the tool's name and its arguments."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class CallRules:
    """How calls are compared.

    Attributes:
        defaults: Arguments of a tool that may be left out, with the value they then have.
        ignore: Arguments that do not count, of every tool.
        ordered: Whether several calls must come in the order given.
        same: What texts may differ by, see ``entity.NORMALISATIONS``.
        tools: Names of tools that the case has; ``name(...)`` with one of them is a call wherever it stands.
    """

    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ignore: frozenset[str] = frozenset()
    ordered: bool = True
    same: frozenset[str] = USUAL
    tools: frozenset[str] = frozenset()


def call_of(value: Any) -> ToolCall | None:
    """The call that a JSON object is, in any usual shape; None if it is none.

    ``{"name", "arguments"}`` with arguments as an object or as JSON text, the same under ``"function"``, and a flat
    object with its tool's name among the arguments. Fields that stand beside the arguments are arguments, too, so that
    none of them may contradict; what both give differently is kept twice, as a tuple.
    """
    if not isinstance(value, Mapping):
        return None
    holder = next((name for name in _HOLDERS if isinstance(value.get(name), Mapping | tuple)), "function")
    inner = value.get(holder)
    if isinstance(inner, Mapping) and (made := call_of(inner)) is not None:
        # A message has more beside its call.
        return _with_fields(made, value, holder, *(("role", "content") if "role" in value else ()))
    if isinstance(inner, tuple):
        return ToolCall("two functions in one call", {})
    for name in _NAMES:
        if isinstance(value.get(name), str):
            break
        if isinstance(value.get(name), tuple):
            # Named twice: no tool is called so, but a call it is.
            return ToolCall(" and ".join(map(str, value[name])), {})
    else:
        return None
    for key in _ARGUMENTS:
        arguments = _object(value.get(key))
        if arguments is not None:
            return _with_fields(ToolCall(value[name], arguments), value, name, key)
    return ToolCall(value[name], {key: item for key, item in value.items() if key != name and item is not None})


def _with_fields(call: ToolCall, value: Mapping[str, Any], *known: str) -> ToolCall:
    """A call with what stands beside its name and its arguments."""
    arguments = dict(call.arguments)
    for name, item in value.items():
        if item is None or name in known or name in _MARKS:
            continue
        if name in _NAMES and isinstance(item, str) and normalise(item) == normalise(call.name):
            continue
        if name in _ARGUMENTS and (twin := _object(item)) is not None and not differences(call.arguments, twin):
            continue
        if name not in arguments:
            arguments[name] = item
        elif differences(arguments[name], item):
            arguments[name] = (arguments[name], item)
    return ToolCall(call.name, arguments)


def has_broken_arguments(value: Any) -> bool:
    """Whether a call's arguments are no JSON object, or text that is none: an answer may hold such, no truth can."""
    if not isinstance(value, Mapping):
        return False
    inner = next((value[name] for name in _HOLDERS if isinstance(value.get(name), Mapping)), None)
    if inner is not None:
        return has_broken_arguments(inner)
    given = [value[key] for key in ("arguments", "parameters") if value.get(key) is not None]
    return any(_object(arguments) is None for arguments in given)


def _object(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, str):
        if not value.strip():
            # A call without arguments, as some servers write it.
            return {}
        try:
            value = json.loads(value, object_pairs_hook=twice_kept)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, Mapping) else None


def calls_in(text: str) -> tuple[ToolCall, ...]:
    """The calls that an answer makes, in order."""
    return tuple(call for value in read_json(calls_as_json(text)).values for call in _calls(value))


def _calls(value: Any) -> Sequence[ToolCall]:
    listed = value.get("tool_calls") if isinstance(value, Mapping) else None
    if isinstance(listed, tuple):
        return [ToolCall("two lists of calls", {})]
    if isinstance(listed, list):
        if "role" not in value and call_of({key: item for key, item in value.items() if key != "tool_calls"}):
            return [ToolCall("a call beside a list of calls", {})]
        value = listed
    found = (call_of(item) for item in (value if isinstance(value, list) else [value]))
    return [call for call in found if call is not None]


def _has_hidden(value: Any) -> bool:
    """Whether a value that is no call has one somewhere inside, but in the lists that ``_calls`` reads."""
    listed = value.get("tool_calls") if isinstance(value, Mapping) else value
    waiting = [item for item in listed if call_of(item) is None] if isinstance(listed, list) else []
    if isinstance(value, Mapping):
        waiting += [item for item in value.values() if item is not listed or not isinstance(item, list | tuple)]
    while waiting:
        item = waiting.pop()
        if _calls(item):
            return True
        if isinstance(item, str) and item.lstrip().startswith(("{", "[")):
            read = read_json(item)
            if read.is_broken:
                return True
            waiting += read.values
        waiting += _inside(item)
    return False


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple | list) else ()


def call_differences(expected: Sequence[ToolCall], answer: str, rules: CallRules) -> tuple[str, ...]:
    """What is wrong with the calls of an answer, in words; empty if they mean what was expected."""
    names = {*rules.tools, *(call.name for call in expected)}
    read = read_json(calls_as_json(answer, names))
    read = replace(read, values=tuple(_by_key(value, names) for value in read.values))
    found = [call for value in read.values for call in _calls(value)]
    if read.is_broken or _WITHOUT_QUOTES.search(read.shape):
        return ("a call is broken off",)
    if any(call_of(value) is None and _has_hidden(value) for value in read.values):
        return ("a call stands inside something else",)
    if not found and expected:
        return ("no tool call",)
    if len(found) != len(expected):
        return (f"{len(found)} tool calls, not {len(expected)}",)
    wrong: list[str] = []
    for i, wanted in enumerate(expected):
        if rules.ordered or i == len(expected) - 1:
            made = found.pop(0)
        else:
            made = next((call for call in found if not _differ(wanted, call, rules)), found[0])
            found.remove(made)
        wrong += _differ(wanted, made, rules)
    return tuple(wrong)


def _by_key(value: Any, names: Collection[str]) -> Any:
    """A value whose only field is a tool's name, as {"turn_on": {...}}, in the usual shape; in a list, too."""
    if isinstance(value, list):
        return [_by_key(item, names) for item in value]
    if isinstance(value, Mapping) and len(value) == 1:
        ((name, arguments),) = value.items()
        if name in names and isinstance(arguments, Mapping):
            return {"name": name, "arguments": arguments}
    return value


def _differ(wanted: ToolCall, made: ToolCall, rules: CallRules) -> tuple[str, ...]:
    if normalise(wanted.name) != normalise(made.name):
        return (f"calls {made.name}, not {wanted.name}",)
    defaults = rules.defaults.get(wanted.name, {})
    one, other = ({**defaults, **_counted(call, rules)} for call in (wanted, made))
    return differences(one, other, same=rules.same)


def _counted(call: ToolCall, rules: CallRules) -> dict[str, Any]:
    return {key: value for key, value in call.arguments.items() if key not in rules.ignore and value is not None}
