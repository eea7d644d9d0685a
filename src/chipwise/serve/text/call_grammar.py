"""Grammars of answers that call tools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from chipwise.serve.text.call_form import CallForm
from chipwise.serve.text.grammar import schema_text


def calls_only(form: CallForm, tools: Sequence[tuple[str, Mapping[str, Any]]], *, several: bool) -> str:
    """The grammar of an answer that is nothing but calls.

    Args:
        form: How the model writes a call.
        tools: The tools' names and the schemas of their arguments.
        several: Whether there may be more than one call.
    """
    return f"start: calls\n{_calls(form, form.opener, tools, several=several)}"


def calls_or_text(form: CallForm, tools: Sequence[tuple[str, Mapping[str, Any]]], *, several: bool) -> str:
    """The grammar of an answer in text that may end in calls; arguments as for ``calls_only``."""
    marker = form.marker
    if not marker:
        # Its bracket alone tells a call from text.
        text = "start: TEXT | calls\nTEXT: /([^{\\s](.|\\n)*)?/\n"
        return text + _calls(form, form.opener, tools, several=several)
    rest = form.opener[form.opener.index(marker) + len(marker) :]
    # The shortest text that ends in the mark is one, so no other text can hold the mark.
    text = f"start: TEXT | to_call calls\nTEXT: /(.|\\n)*/\nto_call[lazy]: TEXT {json.dumps(marker)}\n"
    return text + _calls(form, rest, tools, several=several)


def calls_or_json(
    form: CallForm, tools: Sequence[tuple[str, Mapping[str, Any]]], schema: Mapping[str, Any], *, several: bool
) -> str:
    """The grammar of an answer that is either calls or JSON under a schema; arguments as for ``calls_only``."""
    calls = _calls(form, form.opener, tools, several=several)
    return f"start: calls | answer\nanswer: %json {schema_text(schema)}\n{calls}"


def _calls(form: CallForm, opener: str, tools: Sequence[tuple[str, Mapping[str, Any]]], *, several: bool) -> str:
    more = f" ({json.dumps(form.joint)} call)*" if several and form.joint is not None else ""
    lines = [f"calls: {json.dumps(opener)} call{more} {json.dumps(form.closer)}"]
    lines.append("call: " + " | ".join(f"call_{i}" for i in range(len(tools))))
    for i, (name, schema) in enumerate(tools):
        lines += [f"call_{i}: {json.dumps(name + form.middle)} args_{i}", f"args_{i}: %json {schema_text(schema)}"]
    return "\n".join(lines)
