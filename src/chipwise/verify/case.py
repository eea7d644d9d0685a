"""Case: one thing asked of the model, and what makes an answer right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from chipwise.errors import QueryFileError
from chipwise.model.chat_template import ChatTemplate
from chipwise.model.queries import Query
from chipwise.model.tokenizer import Tokenizer
from chipwise.verify.generate import Prompt
from chipwise.verify.scoring.requirement import Requirement, same_answer

DEFAULT_MAX_TOKENS = 64
"""Length of an answer where a case names none."""


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        id: Its name, the only one in its suite.
        query: What is asked.
        expected: The right answer; None if the suite names none.
        requirement: What makes an answer right; None if the case is not scored. One that asks for nothing belongs to a
            noise case of which no truth is known.
        dimension: What it is a case of, one of ``scoring.settings.DIMENSIONS``; None if it is not scored.
        clean: Of a noise case: the id of the same case without noise.
        max_tokens: Length of the answer at most, its end token included.
        labels: ``domain``, ``lang`` and ``kind``, those that are given.
    """

    id: str
    query: Query
    expected: str | None = None
    requirement: Requirement | None = None
    dimension: str | None = None
    clean: str | None = None
    max_tokens: int = DEFAULT_MAX_TOKENS
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def keywords(self) -> tuple[str, ...]:
        """What an answer must reproduce."""
        return self.requirement.keywords if self.requirement else ()

    @property
    def text(self) -> str:
        """What is asked, for people: roles are named only where there are several messages."""
        if self.query.prompt is not None:
            return self.query.prompt
        messages = self.query.messages
        texts = [str(message.get("content") or message.get("tool_calls") or "") for message in messages]
        if len(messages) == 1:
            return texts[0]
        return "\n".join(f"{message['role']}: {text}" for message, text in zip(messages, texts, strict=True))

    def encode(self, tokenizer: Tokenizer, template: ChatTemplate | None) -> Prompt:
        """The prompt both sides are given: the same token ids, made once.

        Raises:
            RequestError: The template refuses the conversation.
            QueryFileError: A conversation, and the model has no template; or tools, and the template shows none.
        """
        tokens = tuple(self.query.tokens(tokenizer, template))
        if self.query.tools and tokens == tuple(replace(self.query, tools=()).tokens(tokenizer, template)):
            # The model would be judged by tools it was never told of.
            what = "the model has no chat template" if template is None else "the model's chat template shows no tools"
            raise QueryFileError(
                f"case {self.id!r} names tools, and {what}",
                where=template.where if template else None,
                remedy="write the tools into a system message, as the model was trained, or give a template with tools",
            )
        return Prompt(tokens, self.max_tokens)

    def misses(self, answer: str, clean_answer: str | None = None) -> tuple[str, ...] | None:
        """What is wrong with an answer; empty if it is right, None if it cannot be scored.

        A noise case is right if its answer is, by what makes the clean one right; where no truth is known, if it says
        the same as the answer to the clean one.

        Args:
            answer: The answer.
            clean_answer: The same side's answer to the clean twin, if the case has one and that one ran.
        """
        if self.dimension is None or self.requirement is None:
            return None
        if self.requirement.asks:
            return self.requirement.misses(answer)
        if clean_answer is None:
            return None
        same = same_answer(clean_answer, answer, self.requirement.same)
        return () if same else (f"without noise it said {clean_answer!r}",)
