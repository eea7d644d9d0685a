"""Fields that other servers honour and this one does not: refused by name unless they ask for nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chipwise.errors import RequestError

# Field -> the values that change nothing. Any other value would change the answer, so it is never passed over.
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    # OpenAI's
    "audio": (None,),
    "best_of": (None, 1),
    "echo": (None, False),
    "frequency_penalty": (None, 0),
    "function_call": (None, "auto", "none"),
    "functions": (None, []),
    "logit_bias": (None, {}),
    "modalities": (None, [], ["text"]),
    "prediction": (None,),
    "presence_penalty": (None, 0),
    "reasoning_effort": (None, "none"),
    "response_format": (None, {"type": "text"}),
    "suffix": (None, ""),
    "tool_choice": (None, "auto", "none"),
    "tools": (None, []),
    "verbosity": (None, "medium"),
    "web_search_options": (None,),
    # Other servers' (vLLM, llama.cpp) that clients of theirs send
    "add_generation_prompt": (None, True),
    "allowed_token_ids": (None, []),
    "bad_words": (None, []),
    "chat_template": (None,),
    "chat_template_kwargs": (None, {}),
    "continue_final_message": (None, False),
    "grammar": (None, ""),
    "dry_multiplier": (None, 0),
    "dynatemp_range": (None, 0),
    "ebnf": (None, ""),
    "guided_choice": (None, []),
    "guided_grammar": (None, ""),
    "guided_json": (None,),
    "guided_regex": (None, ""),
    "ignore_eos": (None, False),
    "include_stop_str_in_output": (None, False),
    "json_schema": (None, {}),
    "length_penalty": (None, 1),
    "min_p": (None, 0),
    "min_tokens": (None, 0),
    "mirostat": (None, 0),
    "prompt_logprobs": (None,),
    "regex": (None, ""),
    "repeat_penalty": (None, 1),
    "repetition_penalty": (None, 1),
    "skip_special_tokens": (None, True),
    "stop_token_ids": (None, []),
    "structured_outputs": (None, {}),
    "top_k": (None, 0, -1),
    "truncate_prompt_tokens": (None,),
    "typical_p": (None, 1),
    "use_beam_search": (None, False),
    "xtc_probability": (None, 0),
}
_MESSAGE_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "audio": (None,),
    "function_call": (None,),
}


def refuse_unsupported(fields: Mapping[str, Any]) -> None:
    """Refuse a request that asks, in a field we know of, for what this server does not do. Others are ignored.

    Raises:
        RequestError: Names the field.
    """
    _refuse(fields, _NEUTRAL, "")


def refuse_unsupported_in_message(fields: Mapping[str, Any], path: str) -> None:
    """The same for the fields of one message of a chat.

    Raises:
        RequestError: Names the field.
    """
    _refuse(fields, _MESSAGE_NEUTRAL, f"{path}.")


def _refuse(fields: Mapping[str, Any], neutral: Mapping[str, tuple[Any, ...]], prefix: str) -> None:
    for name, value in fields.items():
        if name in neutral and not any(_same(value, allowed) for allowed in neutral[name]):
            raise RequestError(
                "this server does not support this field with this value",
                where=prefix + name,
                remedy="leave it out",
                code="unsupported_parameter",
                param=prefix + name,
            )


def _same(value: Any, allowed: Any) -> bool:
    # True == 1 in Python, but not in JSON.
    return bool(value == allowed) and isinstance(value, bool) == isinstance(allowed, bool)
