"""Grammar: what the text of an answer has to be, enforced by a mask over the vocabulary at every token."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from typing import Any

import llguidance
import numpy as np
import numpy.typing as npt

from chipwise.errors import EngineError, RequestError
from chipwise.serve.text.idle_keywords import without_idle_keywords
from chipwise.serve.text.vocabulary import Vocabulary

# A model that is unsure may write spaces without end; so many are enough to indent eight levels by four.
_WHITESPACE = r"[\x20\x0A\x0D\x09]{1,32}"
# They replace what a client writes into its schema for llguidance: `lenient` would drop what is not enforced.
_JSON_OPTIONS: Mapping[str, Any] = {
    "whitespace_flexible": True,
    "whitespace_pattern": _WHITESPACE,
    "lenient": False,
    "coerce_one_of": False,
}
# Of forced text, too, the model chooses the tokens: the longest it knows, as in what it learned from.
_HEAD = '%llguidance {"no_forcing": true}\n'
_LIMITS = llguidance.LLParserLimits(verbose_errors=False)
_KEPT = 32
_SHOWN_CHARS = 300
# llguidance says where in our own text a schema stands, and shows that: neither is the client's.
_PLACE = re.compile(r"^at \d+\(\d+\): (failed to compile JSON schema: )?")
_LISTING = re.compile(r"\n *\d+ \| .*", re.DOTALL)
# Tables of so many tokens take a tenth of a second and 4 MiB at most: nobody need wait for these.
_SMALL_VOCABULARY = 8192

JSON_OBJECT: Mapping[str, Any] = {"type": "object"}
"""The schema of any JSON object."""


class GrammarState:
    """Where one answer stands in its grammar. It belongs to the answer, not to a slot: who gives way keeps it."""

    def __init__(self, matcher: llguidance.LLMatcher, vocab_size: int, eos_ids: Container[int]) -> None:
        self._matcher = matcher
        self._vocab_size = vocab_size
        self._eos_ids = eos_ids

    @property
    def complete(self) -> bool:
        """Whether the text is whole and nothing may follow."""
        return self._matcher.is_stopped() and self._matcher.is_accepting()

    def allowed(self) -> npt.NDArray[np.bool_]:
        """Which tokens may come next, bool ``[vocab]``; an end token where the text is whole.

        Raises:
            EngineError: The grammar became too complex to follow, or no token of the model goes on.
        """
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        mask = np.unpackbits(bits, count=self._vocab_size, bitorder="little").view(np.bool_)
        if not mask.any():
            raise EngineError("the grammar allows none of the model's tokens here", remedy="ask for another schema")
        return mask

    def advance(self, token: int) -> None:
        """Follow the chosen token.

        Raises:
            EngineError: It is none of those allowed.
        """
        # An end token closes a text that is whole; llguidance has stopped by itself where nothing could follow.
        if not (token in self._eos_ids and self._matcher.is_accepting()):
            self._matcher.consume_token(token)
            self._check()

    def forced(self) -> bytes:
        """The text that has to come next, whatever its tokens are; empty if there is a choice."""
        return self._matcher.compute_ff_bytes()

    def count_valid(self, tokens: Sequence[int]) -> int:
        """How many of these tokens may come next, one after the other. The state stays as it is."""
        return self._matcher.validate_tokens(list(tokens)) if tokens else 0

    def after(self, tokens: Sequence[int]) -> GrammarState:
        """The state behind some tokens that may come next; this one stays as it is.

        Raises:
            EngineError: They may not.
        """
        state = GrammarState(self._matcher.deep_copy(), self._vocab_size, self._eos_ids)
        for token in tokens:
            state.advance(token)
        return state

    def _check(self) -> None:
        if self._matcher.is_error():
            raise EngineError(f"the answer's grammar cannot be followed ({_shown(self._matcher.get_error())})")
        if self._matcher.is_stopped() and not self._matcher.is_accepting():
            raise EngineError(f"the answer's grammar leads nowhere ({self._matcher.stop_reason()})")


class Grammar:
    """A compiled grammar, from which each answer starts anew. Safe to share between threads."""

    def __init__(self, matcher: llguidance.LLMatcher, vocab_size: int, eos_ids: Container[int]) -> None:
        self._matcher = matcher
        self._vocab_size = vocab_size
        self._eos_ids = eos_ids

    def start(self) -> GrammarState:
        """The state before the first token of an answer."""
        return GrammarState(self._matcher.deep_copy(), self._vocab_size, self._eos_ids)


class Grammars:
    """Compiles grammars for one vocabulary, and remembers the latest. Safe to share between threads.

    The tokens' bytes are the vocabulary's, so a grammar holds for the very text that clients are sent.

    Args:
        vocabulary: The model's tokens.
        vocab_size: How many logits the model has.
        eos_ids: The tokens that end an answer.
    """

    def __init__(self, vocabulary: Vocabulary, vocab_size: int, eos_ids: tuple[int, ...]) -> None:
        self._vocabulary = vocabulary
        self._vocab_size = vocab_size
        # A tokenizer may know more tokens than the model has logits for.
        self._eos_ids = tuple(token for token in eos_ids if token < vocab_size)
        self._tokens: llguidance.LLTokenizer | None = None
        self._one_byte: Mapping[int, int] = {}
        self._compiled: dict[str, Grammar] = {}
        self._lock, self._compiling = threading.Lock(), threading.Lock()

    def make_ready(self) -> None:
        """Build what the first grammar needs before it is asked for, if that is little; of large vocabularies nothing.

        A compiler that is first used while requests are answered makes them wait, and memory grow.
        """
        if not self._eos_ids or self._vocab_size > _SMALL_VOCABULARY:
            return
        # To refuse a schema takes other parts of it. Whoever asks for one that cannot be written here is told then.
        for schema in (JSON_OBJECT, {"type": "none"}):
            with suppress(RequestError):
                self.of_schema(schema, "")

    def of_schema(self, schema: Mapping[str, Any], where: str) -> Grammar:
        """The grammar of the JSON texts that are valid under a JSON Schema.

        Args:
            schema: The schema.
            where: The field of the request it stands in, for messages.

        Raises:
            RequestError: It is no schema, nothing is valid under it, or a part of it cannot be enforced.
        """
        return self.of_lark(f"start: %json {schema_text(schema)}", where)

    def of_lark(self, text: str, where: str) -> Grammar:
        """The grammar that a text in llguidance's variant of Lark describes.

        Args:
            text: The text.
            where: The field of the request it was made from, for messages.

        Raises:
            RequestError: It does not compile.
        """
        if (known := self._known(text)) is not None:
            return known
        # One at a time: it takes a core, for seconds if the schema is huge. Who needs none of it does not wait.
        with self._compiling:
            return self._known(text) or self._keep(text, self._compile(text, where))

    def _known(self, text: str) -> Grammar | None:
        with self._lock:
            found = self._compiled.pop(text, None)
            if found is not None:
                self._compiled[text] = found
            return found

    def _keep(self, text: str, made: Grammar) -> Grammar:
        with self._lock:
            self._compiled[text] = made
            while len(self._compiled) > _KEPT:
                del self._compiled[next(iter(self._compiled))]
        return made

    def _compile(self, text: str, where: str) -> Grammar:
        if not self._eos_ids:
            raise RequestError(
                "the model has no end token, so no form can be enforced on its answers",
                where=where,
                remedy="leave it out",
                code="unsupported_parameter",
                param=where,
            )
        if self._tokens is None:
            self._tokens = self._make_tokens()
        source = llguidance.LLMatcher.grammar_from_lark(_HEAD + text)
        matcher = llguidance.LLMatcher(self._tokens, source, log_level=0, limits=_LIMITS)
        # A warning tells of a part that is not enforced: to the client that is the same as an error.
        problem = matcher.get_error() or "; ".join(matcher.get_grammar_warnings())
        if problem:
            raise _unsupported(problem, where)
        grammar = Grammar(matcher, self._vocab_size, self._eos_ids)
        try:
            self._begin(grammar.start())
        except EngineError as e:
            raise _unsupported(f"nothing can begin under it, or it is too large: {e.what}", where) from e
        return grammar

    def _begin(self, state: GrammarState) -> None:
        """Follow what an answer has to begin with.

        Some grammars compile and cannot be followed: nothing satisfies them, or they are too large at their first
        choice. That is found here, before an engine works on an answer.

        Raises:
            EngineError: It cannot be followed so far.
        """
        state.allowed()
        for byte in state.forced():
            token = self._one_byte.get(byte)
            if token is None or not state.allowed()[token]:
                break
            state.advance(token)
        if not state.complete:
            state.allowed()

    def _make_tokens(self) -> llguidance.LLTokenizer:
        tokens = _Tokens(self._vocabulary, self._vocab_size, self._eos_ids)
        self._one_byte = tokens.by_byte
        wrapped = llguidance.TokenizerWrapper(tokens)
        return llguidance.LLTokenizer(wrapped, n_vocab=self._vocab_size, eos_token=list(self._eos_ids))


class _Tokens:
    """The vocabulary as llguidance asks for it. Tokens that add nothing to an answer are special: never allowed."""

    def __init__(self, vocabulary: Vocabulary, vocab_size: int, eos_ids: tuple[int, ...]) -> None:
        self.eos_token_id = eos_ids[0]
        self.bos_token_id = None
        self.tokens = [vocabulary.token_bytes(i) for i in range(vocab_size)]
        silent = {i for i, raw in enumerate(self.tokens) if not raw} | set(eos_ids)
        self.special_token_ids = sorted(silent)
        for i in silent:
            self.tokens[i] = b"<special %d>" % i
        self.by_byte = {raw[0]: i for i, raw in enumerate(self.tokens) if len(raw) == 1 and i not in silent}

    def __call__(self, text: bytes | str) -> list[int]:
        """Token ids of a text, byte by byte: asked for only where forced text is written ahead, which is turned off."""
        raw = text.encode() if isinstance(text, str) else text
        return [self.by_byte[byte] for byte in raw if byte in self.by_byte]


def schema_text(schema: Mapping[str, Any]) -> str:
    """A schema as it stands in a grammar behind ``%json``, with how JSON is written in place of a client's options."""
    return json.dumps({**without_idle_keywords(schema), "x-guidance": dict(_JSON_OPTIONS)})


def _unsupported(problem: str, where: str) -> RequestError:
    return RequestError(
        f"the schema cannot be enforced ({_shown(problem)})",
        where=where,
        remedy="leave that part out of the schema, and check it in the answer",
        code="unsupported_schema",
        param=where,
    )


def _shown(problem: str) -> str:
    line = " ".join(_LISTING.sub("", _PLACE.sub("", problem)).split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}..."
