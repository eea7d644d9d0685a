"""Chat templates that write tool calls in the ways that models do."""

from __future__ import annotations

_TOOLS = "{% if tools %}<tools>{% for t in tools %}{{ t | tojson }}\n{% endfor %}</tools>{% endif %}"
_START = "{% if add_generation_prompt %}<assistant>\n{% endif %}"


def _template(calls: str) -> str:
    return (
        f"{_TOOLS}{{% for m in messages %}}<{{{{ m.role }}}}>\n{{{{ m.content }}}}"
        f"{{% if m.tool_calls %}}{calls}{{% endif %}}<end>\n{{% endfor %}}{_START}"
    )


NO_TOOLS = "{% for m in messages %}<{{ m.role }}>\n{{ m.content }}<end>\n{% endfor %}" + _START
HERMES_TEMPLATE = _template(
    "{% for c in m.tool_calls %}{{ '\n' if not loop.first }}<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}'
)
LLAMA_TEMPLATE = _template(
    "{% if m.tool_calls | length != 1 %}{{ raise_exception('one call at a time') }}{% endif %}"
    '{% set c = m.tool_calls[0].function %}{"name": "{{ c.name }}", "parameters": {{ c.arguments | tojson }}}'
)
TEXT_TEMPLATE = _template(
    "{% for c in m.tool_calls %}{{ '\n' if not loop.first }}CALL "
    "{{ '{\"name\": \"' + c.function.name + '\", \"arguments\": ' + c.function.arguments + '}' }}{% endfor %}"
)
XML_TEMPLATE = _template(
    "{% for c in m.tool_calls %}<function={{ c.function.name }}>{% for k, v in c.function.arguments | items %}"
    "<{{ k }}>{{ v }}</{{ k }}>{% endfor %}</function>{% endfor %}"
)
