"""Thought: what a model writes for itself before its answer, as several families mark it."""

from __future__ import annotations

import re

_NAMES = "think(?:ing)?|thoughts?|reasoning|seed:think"
_BEGIN = re.compile(
    rf"<(?:{_NAMES})(?:\s[^<>/]{{0,60}})?>|\[THINK\]|◁think▷|<\|(?:begin_of_thought|START_THINKING)\|>", re.IGNORECASE
)
_END = re.compile(rf"</(?:{_NAMES})\s?>|\[/THINK\]|◁/think▷|<\|(?:end_of_thought|END_THINKING)\|>", re.IGNORECASE)

_CHANNEL = "<|channel|>"
_CHANNEL_MARK = re.compile(r"<\|(?:start|message|end|return)\|>(?:assistant(?=\s*(?:<\||$)))?")


def said(answer: str) -> str:
    """An answer without what the model thought before it, such as that between ``<think>`` and ``</think>``.

    Thinking that never ends leaves no answer. The tag that begins it may be missing: some templates write it. Of
    channels (``<|channel|>analysis``) all but the analysis is the answer.
    """
    if _CHANNEL in answer:
        answer = _CHANNEL_MARK.sub(" ", " ".join(map(_of_channel, answer.split(_CHANNEL))))
    ends = list(_END.finditer(answer))
    answer = answer[ends[-1].end() :] if ends else answer
    begins = _BEGIN.search(answer)
    return answer[: begins.start()] if begins else answer


def _of_channel(part: str) -> str:
    return "" if part.startswith("analysis") else part.removeprefix("final")
