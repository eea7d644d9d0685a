from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chipwise.serve.loop.answer import Answer
from chipwise.serve.request.events import Piece
from chipwise.serve.request.request import Request
from chipwise.serve.text.sampling import SamplingParams, TokenLogprobs
from chipwise.serve.text.vocabulary import Vocabulary
from tests.serve.fakes import EOS, byte_tokenizer, text_of
from tests.serve.text.test_stop import reference

VOCABULARY = Vocabulary(byte_tokenizer())


def answer_to(stop: Sequence[str] = (), max_tokens: int = 100) -> Answer:
    request = Request("r", np.array([1]), max_tokens, SamplingParams(), tuple(stop), 0.0)
    return Answer(request, VOCABULARY, {EOS})


def run(answer: Answer, tokens: Sequence[int], *, logprobs: bool = False) -> list[Piece]:
    pieces = []
    for i, token in enumerate(tokens):
        piece = answer.push(token, TokenLogprobs(token, -float(i), ()) if logprobs else None)
        pieces += [piece] if piece else []
        if answer.finish_reason:
            break
    return pieces


def text(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def test_end_token_ends_and_is_not_said() -> None:
    answer = answer_to()
    assert text(run(answer, [*b"hi", EOS, *b"more"])) == "hi"
    assert (answer.finish_reason, answer.n_tokens) == ("stop", 3)


def test_length_ends() -> None:
    answer = answer_to(max_tokens=2)
    assert text(run(answer, b"hello")) == "he"
    assert (answer.finish_reason, answer.n_tokens) == ("length", 2)


def test_end_token_at_the_last_place_is_a_stop() -> None:
    answer = answer_to(max_tokens=3)
    run(answer, [*b"hi", EOS])
    assert answer.finish_reason == "stop"


def test_a_complete_text_ends_unless_a_stop_string_cuts_it() -> None:
    for stop, said in (((), "{}"), (("}",), "{"), (("} ",), "{}")):
        answer = answer_to(stop, max_tokens=2)
        pieces = [*run(answer, b"{"), answer.push(ord("}"), None, complete=True)]
        assert text([piece for piece in pieces if piece]) == said
        assert (answer.finish_reason, answer.n_tokens) == ("stop", 2)


def test_stop_string_over_several_tokens_is_not_said() -> None:
    answer = answer_to(["\n\n"])
    assert text(run(answer, b"one\ntwo\n\nthree")) == "one\ntwo"
    assert (answer.finish_reason, answer.n_tokens) == ("stop", 9)


def test_beginning_of_a_stop_string_is_said_when_the_answer_ends_in_it() -> None:
    assert text(run(answer_to(["END!"]), [*b"the END", EOS])) == "the END"
    assert text(run(answer_to(["END!"], max_tokens=7), b"the END!")) == "the END"


def test_stop_string_of_characters_that_are_several_tokens() -> None:
    answer = answer_to(["。"])
    assert text(run(answer, "好的。再见".encode())) == "好的"
    assert answer.finish_reason == "stop"


def test_character_cut_by_the_length_is_left_out() -> None:
    assert text(run(answer_to(max_tokens=4), "好🦊".encode())) == "好"


@given(
    st.lists(st.sampled_from([*"ab漢🦊".encode(), 0xFF, EOS]), max_size=30),
    st.lists(st.text("ab漢🦊", min_size=1, max_size=3), max_size=3),
    st.integers(1, 30),
)
def test_text_is_the_cut_of_the_whole(tokens: list[int], stops: list[str], max_tokens: int) -> None:
    answer = answer_to(stops, max_tokens)
    pieces = run(answer, tokens, logprobs=True)
    if answer.finish_reason is None:
        assert len(tokens) < max_tokens
        return
    used = tokens[: answer.n_tokens]
    whole, stopped = reference(text_of(used), stops)
    assert text(pieces) == whole
    assert answer.finish_reason == ("stop" if stopped or EOS in used else "length")
    _check_tokens(pieces, used, stopped=stopped)


def _check_tokens(pieces: list[Piece], used: list[int], *, stopped: bool) -> None:
    entries = [entry for piece in pieces for entry in piece.tokens]
    offsets = [offset for piece in pieces for offset in piece.offsets]
    spoken = [token for token in used if token != EOS]
    assert [entry.token for entry in entries] == spoken[: len(entries)]
    if not stopped:
        assert len(entries) == len(spoken)
    for i, offset in enumerate(offsets):
        assert offset == len(text_of(spoken[:i]))
        assert not stopped or offset < len(text(pieces))
