"""Calling: what a chat's tools and response format make of its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chipwise.serve.http.call_reader import CallReader
from chipwise.serve.http.tools import Named, Tool
from chipwise.serve.text.call_form import CallForm
from chipwise.serve.text.call_grammar import calls_only, calls_or_json, calls_or_text
from chipwise.serve.text.grammar import Grammar, Grammars

_ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


@dataclass(frozen=True)
class Calling:
    """The tools that an answer may or must call.

    Attributes:
        form: How the model writes a call.
        tools: The tools.
        choice: ``None``, ``"auto"``, ``"required"`` or the one that is to be called.
        several: Whether one answer may hold several calls.
    """

    form: CallForm
    tools: Sequence[Tool]
    choice: Any
    several: bool

    def reader(self) -> CallReader:
        """What tells calls from text in one answer."""
        return CallReader(self.form, {tool.function.name for tool in self.tools})

    def grammar(self, grammars: Grammars, answer: tuple[Mapping[str, Any], str] | None) -> Grammar | None:
        """The grammar of the answer; None if it is free.

        A call that must come is enforced. One that may come is, too, if a tool says ``strict`` or the answer has to be
        JSON otherwise.

        Args:
            grammars: Compiles it.
            answer: The schema of an answer without calls and the field it stands in; None for any text.

        Raises:
            RequestError: A schema cannot be enforced; the message names its field.
        """
        functions = [tool.function for tool in self.tools]
        must = self.choice == "required" or isinstance(self.choice, Named)
        chosen = []
        for i, function in enumerate(functions):
            if isinstance(self.choice, Named) and function.name != self.choice.name:
                continue
            schema: Mapping[str, Any] = _ANY_OBJECT
            if must or function.strict:
                schema = function.schema_of_arguments
                # Compiled by itself first: an error then names the tool it is in.
                grammars.of_schema(schema, f"tools[{i}].function.parameters")
            chosen.append((function.name, schema))
        if must:
            several = self.several and not isinstance(self.choice, Named)
            return grammars.of_lark(calls_only(self.form, chosen, several=several), "tools")
        if answer is not None:
            grammars.of_schema(*answer)
            return grammars.of_lark(calls_or_json(self.form, chosen, answer[0], several=self.several), "tools")
        if any(function.strict for function in functions):
            return grammars.of_lark(calls_or_text(self.form, chosen, several=self.several), "tools")
        return None
