from __future__ import annotations

import pytest

from chipwise.errors import RequestError
from chipwise.model.chat_template import ChatTemplate
from chipwise.serve.text.call_form import HERMES, PLAIN, CallForm, call_form
from tests.serve.templates import HERMES_TEMPLATE, LLAMA_TEMPLATE, NO_TOOLS, TEXT_TEMPLATE, XML_TEMPLATE

ENDS = ("<end>",)


def form_of(source: str) -> CallForm:
    return call_form(ChatTemplate(source), ENDS)


def test_hermes() -> None:
    assert form_of(HERMES_TEMPLATE) == HERMES
    assert (HERMES.marker, HERMES.end_marker) == ("<tool_call>", "</tool_call>")


def test_plain_json_under_other_names_and_one_at_a_time() -> None:
    form = form_of(LLAMA_TEMPLATE)
    assert form == CallForm('{"name": "', '", "parameters": ', None, "}", "name", "parameters")
    assert (form.marker, form.end_marker) == ("", "")


def test_arguments_as_text() -> None:
    form = form_of(TEXT_TEMPLATE)
    assert form.arguments_as_text
    assert (form.opener, form.joint, form.closer) == ('CALL {"name": "', '}\nCALL {"name": "', "}")


def test_past_calls_that_are_not_shown() -> None:
    shows = (
        "{{ tools | tojson if tools }}{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}<assistant>"
    )
    assert form_of(shows) == PLAIN
    assert form_of(shows + "{# <tool_call> #}") == HERMES


@pytest.mark.parametrize(("source", "why"), [(NO_TOOLS, "no place for tools"), (XML_TEMPLATE, "does not know")])
def test_others_are_refused(source: str, why: str) -> None:
    with pytest.raises(RequestError, match=why) as caught:
        form_of(source)
    assert caught.value.param == "tools"
