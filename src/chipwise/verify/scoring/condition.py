"""Conditions of rules, such as ``temperature > 26 and mode != "away"``, evaluated on a case's values."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from chipwise.errors import InputError
from chipwise.verify.scoring.clock import time_of

_LONGEST = 500
_REMEDY = "write e.g. \"temperature > 26 and mode != 'away'\" with names of values"

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?")


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    kinds: dict[str, type | tuple[type, ...]] = {
        "a number": (int, float),
        "a text": str,
        "a list": list,
        "null": type(None),
        "an object": Mapping,
    }
    return next((name for name, types in kinds.items() if isinstance(value, types)), type(value).__name__)


def _equal(one: Any, other: Any) -> bool:
    """Whether two values of one kind are equal: "26" would silently be no 26."""
    if _kind(one) != _kind(other):
        raise TypeError(f"{one!r} is {_kind(one)}, {other!r} is {_kind(other)}")
    return bool(one == other)


def _within(one: Any, many: Any) -> bool:
    if isinstance(many, list):
        return any(_equal(one, other) for other in many)
    return one in many


def _ordered(one: Any, other: Any) -> tuple[Any, Any]:
    """Two values as they can be ordered: numbers, times of day, and dates written alike; "9:00" < "19:30"."""
    if {_kind(one), _kind(other)} == {"a number"}:
        return one, other
    if isinstance(one, str) and isinstance(other, str):
        times = time_of(one), time_of(other)
        if None not in times:
            return times
        if _DAY.fullmatch(one) and _DAY.fullmatch(other) and len(one) == len(other):
            return one.replace("T", " "), other.replace("T", " ")
    raise TypeError(f"nothing says which of {one!r} and {other!r} is more")


_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: _equal,
    ast.NotEq: lambda one, other: not _equal(one, other),
    ast.Lt: lambda one, other: operator.lt(*_ordered(one, other)),
    ast.LtE: lambda one, other: operator.le(*_ordered(one, other)),
    ast.Gt: lambda one, other: operator.gt(*_ordered(one, other)),
    ast.GtE: lambda one, other: operator.ge(*_ordered(one, other)),
    ast.In: _within,
    ast.NotIn: lambda one, many: not _within(one, many),
}
_COMBINE: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def holds(condition: str, values: Mapping[str, Any]) -> bool:
    """Whether a condition holds for some values.

    It is made of comparisons (``== != < <= > >= in``), ``and or not``, brackets, sums and products, numbers, quoted
    texts, ``[lists]`` and names of values. Both sides of a comparison are of one kind; ordered are numbers, times of
    day (``"9:00" < "7:30 pm"``) and dates (``"2026-01-05"``).

    Raises:
        InputError: It is none, names a value that is not there, or compares what cannot be compared.
    """
    if len(condition) > _LONGEST:
        raise InputError(f"a condition of {len(condition)} characters", remedy=f"write {_LONGEST} at most")
    try:
        tree = ast.parse(condition.strip(), mode="eval")
        result = _value(tree.body, values)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise InputError(f"{condition!r} is no condition", remedy=_REMEDY) from e
    except (TypeError, ArithmeticError) as e:
        raise InputError(f"{condition!r} cannot be evaluated ({e})", remedy="compare values of one kind") from e
    if not isinstance(result, bool):
        raise InputError(f"{condition!r} is neither true nor false", remedy=_REMEDY)
    return result


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float, str)):
        return node.value
    if isinstance(node, ast.Name):
        if node.id in values:
            return values[node.id]
        known = {"true": True, "false": False}
        if node.id in known:
            return known[node.id]
        raise InputError(
            f"the condition names {node.id!r}, which is no value", remedy=f"there are {', '.join(values) or 'none'}"
        )
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_value(item, values) for item in node.elts]
    if isinstance(node, ast.BoolOp):
        parts = [_truth(item, values) for item in node.values]
        return all(parts) if isinstance(node.op, ast.And) else any(parts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _truth(node.operand, values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, values)
    if isinstance(node, ast.BinOp) and type(node.op) in _COMBINE:
        return _COMBINE[type(node.op)](_number(node.left, values), _number(node.right, values))
    if isinstance(node, ast.Compare) and all(type(op) in _COMPARE for op in node.ops):
        items = [_value(item, values) for item in (node.left, *node.comparators)]
        pairs = zip(node.ops, items, items[1:], strict=False)
        return all(bool(_COMPARE[type(op)](one, other)) for op, one, other in pairs)
    raise ValueError(type(node).__name__)


def _number(node: ast.expr, values: Mapping[str, Any]) -> float:
    value = _value(node, values)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        # "ab" * 10**9 would fill the memory.
        raise TypeError(f"{value!r} is no number")
    return value


def _truth(node: ast.expr, values: Mapping[str, Any]) -> bool:
    value = _value(node, values)
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value
