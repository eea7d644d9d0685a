"""Chat templates: what Hugging Face's templates rely on, and what they run into."""

from __future__ import annotations

import re
from typing import Any

import pytest

from chipwise.errors import ModelFormatError, RequestError
from chipwise.model.chat_template import ChatTemplate

USER = [{"role": "user", "content": "hi"}]
CHATML = (
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def test_generation_prompt() -> None:
    template = ChatTemplate(CHATML)
    assert template.render(USER) == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert template.render(USER, add_generation_prompt=False) == "<|im_start|>user\nhi<|im_end|>\n"


def test_tokens_and_tools() -> None:
    template = ChatTemplate(
        "{{ bos_token }}{% if tools is not none %}{{ tools | tojson }}{% endif %}{{ eos_token }}",
        bos_token="<s>",
        eos_token="</s>",
    )
    assert template.render(USER) == "<s></s>"
    tools = [{"name": "灯", "html": "<b>&"}]
    assert template.render(USER, tools=tools) == '<s>[{"name": "灯", "html": "<b>&"}]</s>'


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("  {%- if true %}\n  x\n  {%- endif %}\n", "  x"),  # trim_blocks and lstrip_blocks
        ("{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "1"),
        ("{% generation %}{{ messages[0].content }}{% endgeneration %}!", "hi!"),
        ("{{ {'b': 1, 'a': 2} | tojson(indent=1, sort_keys=true) }}", '{\n "a": 2,\n "b": 1\n}'),
        ("{{ '<&>' }}", "<&>"),
    ],
)
def test_dialect(source: str, wanted: str) -> None:
    assert ChatTemplate(source).render(USER) == wanted


def test_today() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", ChatTemplate("{{ strftime_now('%Y-%m-%d') }}").render(USER))


def test_the_caller_keeps_its_messages() -> None:
    messages: list[dict[str, Any]] = [dict(USER[0])]
    with pytest.raises(RequestError):
        ChatTemplate("{% set _ = messages.append({}) %}").render(messages)
    assert messages == USER


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('roles must alternate') }}",
        "{{ messages[5].content + 'x' }}",
        "{{ 'a' + none }}",
        "{{ 1 // 0 }}",
        "{{ 'x' * 3 + 3 }}",
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.join(messages) }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ messages | nosuchfilter }}",
    ],
)
def test_what_fails_is_the_requests_fault_or_the_models(source: str) -> None:
    with pytest.raises((RequestError, ModelFormatError)) as caught:
        ChatTemplate(source).render(USER)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("message", "where", "what"),
    [
        ({"content": "hi"}, "messages[1]", "role is missing"),
        ({"role": None, "content": "hi"}, "messages[1].role", "is no text, but NoneType"),
        ({"role": "user"}, "messages[1]", "content is missing"),
        ({"role": "user", "content": None}, "messages[1].content", "is no text, but NoneType"),
        ({"role": "user", "content": 5}, "messages[1].content", "is no text, but int"),
        ({"role": "user", "content": [{"type": "text", "text": "hi"}]}, "messages[1].content", "but list"),
        ({"role": "assistant", "content": None, "tool_calls": []}, "messages[1].content", "but NoneType"),
        ({"content": None, "tool_calls": [{}]}, "messages[1]", "role is missing"),
        ("hi", "messages[1]", "a message is an object, not str"),
        (None, "messages[1]", "a message is an object, not NoneType"),
    ],
)
def test_messages_that_are_none(message: Any, where: str, what: str) -> None:
    # This template would write each of them somehow.
    template = ChatTemplate("{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}")
    with pytest.raises(RequestError) as caught:
        template.render([*USER, message])
    assert caught.value.where == caught.value.param == where
    assert what in str(caught.value)


def test_calls_of_tools_need_no_content() -> None:
    template = ChatTemplate("{% for m in messages %}{{ m.content or m.tool_calls | length }}{% endfor %}")
    calls = [{"function": {"name": "f"}}]
    assert template.render([*USER, {"role": "assistant", "tool_calls": calls}]) == "hi1"
    assert template.render([*USER, {"role": "assistant", "content": None, "tool_calls": calls}]) == "hi1"


@pytest.mark.parametrize("calls", ["x", 5, [None], {"a": 1}])
def test_calls_of_tools_that_are_none(calls: Any) -> None:
    template = ChatTemplate("{% for call in messages[0].tool_calls %}{{ call.function.name + '' }}{% endfor %}")
    with pytest.raises(RequestError, match=r"the chat template fails on these messages.*; .*correct the template"):
        template.render([{"role": "assistant", "tool_calls": calls}])


def test_refusal_says_why() -> None:
    with pytest.raises(RequestError, match="refuses these messages: roles must alternate") as caught:
        ChatTemplate("{{ raise_exception('roles must alternate') }}").render(USER)
    assert caught.value.code == "invalid_messages"


@pytest.mark.parametrize("source", ["{% for %}", "{{ a b }}", "{% endif %}", "{% generation %}"])
def test_what_is_no_template(source: str) -> None:
    with pytest.raises(ModelFormatError, match="does not parse") as caught:
        ChatTemplate(source, where="m/chat_template.jinja")
    assert caught.value.where == "m/chat_template.jinja"
    assert caught.value.remedy


def test_round_trip() -> None:
    template = ChatTemplate(CHATML, bos_token="<s>", eos_token="</s>")
    again = ChatTemplate.from_dict(template.to_dict())
    assert (again.source, again.bos_token, again.eos_token) == (CHATML, "<s>", "</s>")
