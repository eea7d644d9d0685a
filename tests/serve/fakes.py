"""A tokenizer of bytes and null models for tests of the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from tokenizers import AddedToken, decoders, pre_tokenizers
from tokenizers import Tokenizer as FastTokenizer
from tokenizers.models import BPE

from chipwise.engine import Batch
from chipwise.engine.graph_session import Arrays, TensorSpec
from chipwise.engine.null import NullOptions, NullSession
from chipwise.engine.text_encoder import TextEncoder
from chipwise.errors import EngineError
from chipwise.model.chat_template import ChatTemplate
from chipwise.model.tokenizer import SpecialTokens, Tokenizer
from chipwise.serve.inference.image_settings import ImageSettings
from chipwise.serve.models.served_encoder import ServedEncoder
from chipwise.serve.models.served_graph import ServedGraph
from chipwise.serve.models.served_model import ServedModel

BOS, EOS = 256, 257
VOCAB = 260  # two ids have no token, as in models whose embedding is padded

TEMPLATE = (
    "{% for m in messages %}{% if m.content == 'refuse' %}{{ raise_exception('not this') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}\n{% endfor %}"
)


def byte_alphabet() -> list[str]:
    """The byte-level alphabet by byte (the tokenizers package gives it without an order)."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = iter(range(0x100, 0x200))
    alphabet = [chr(b) if b in shown else chr(next(hidden)) for b in range(256)]
    assert sorted(alphabet) == sorted(pre_tokenizers.ByteLevel.alphabet())
    return alphabet


def byte_tokenizer(*, add_bos: bool = False) -> Tokenizer:
    """A token is a byte and its id the byte's value; two special tokens follow."""
    vocab = {char: byte for byte, char in enumerate(byte_alphabet())}
    fast = FastTokenizer(BPE(vocab=vocab, merges=[]))
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    fast.decoder = decoders.ByteLevel()
    fast.add_special_tokens([AddedToken("<bos>", special=True), AddedToken("<end>", special=True)])
    return Tokenizer(fast, SpecialTokens(bos_id=BOS, eos_ids=(EOS,), pad_id=None, add_bos=add_bos))


def null_model(
    n_slots: int = 4, max_context: int = 256, *, chat: bool = True, add_bos: bool = False, **options
) -> ServedModel:
    """A null model that speaks bytes."""
    session = NullSession(n_slots, max_context, NullOptions(**{"vocab_size": VOCAB, **options}))
    template = ChatTemplate(TEMPLATE) if chat else None
    return ServedModel("null-bytes", session, byte_tokenizer(add_bos=add_bos), template, 1_700_000_000, "fp_test")


class NullEncoder:
    """A graph session whose hidden state is a row of a table for each token.

    Args:
        fail_runs: Runs, counted from 0, that raise EngineError.
        gate: Called in each run with the ids it was given.
    """

    input_names = ("input_ids", "attention_mask")
    output_names = ("last_hidden_state",)

    def __init__(self, *, fail_runs: Sequence[int] = (), gate: Callable[[np.ndarray], None] = lambda ids: None) -> None:
        self.table = np.random.default_rng(5).normal(size=(VOCAB, 6)).astype(np.float32)
        self.runs: list[tuple[int, ...]] = []
        self.closed = False
        self._fail_runs, self._gate = set(fail_runs), gate

    def run(self, feed: Arrays) -> dict[str, np.ndarray]:
        ids, number = feed["input_ids"], len(self.runs)
        self.runs.append(ids.shape)
        self._gate(ids)
        if number in self._fail_runs:
            raise EngineError(f"run {number} fails as told")
        return {"last_hidden_state": self.table[ids]}

    def close(self) -> None:
        self.closed = True

    def vector(self, text: str) -> np.ndarray:
        """What a text's vector must be."""
        return self.table[list(text.encode())].mean(axis=0)


def null_encoder(max_tokens: int = 64, **options) -> ServedEncoder:
    """A null encoder of bytes."""
    session = NullEncoder(**options)
    tokenizer = byte_tokenizer()
    return ServedEncoder("null-encoder", session, TextEncoder(session, "null"), tokenizer, 6, max_tokens, 1_700_000_001)


class NullGraph:
    """A graph session that gives back what it is given, named ``NAME_out``, and lets a test look on.

    Args:
        inputs: What it takes.
        gate: Called in each run with the feed.
        spoil: Fills what it gives back.
    """

    def __init__(
        self,
        *inputs: TensorSpec,
        gate: Callable[[Arrays], None] = lambda feed: None,
        spoil: float | None = None,
    ) -> None:
        self.inputs = inputs
        self.input_names = tuple(spec.name for spec in inputs)
        self.output_names = tuple(f"{name}_out" for name in self.input_names)
        self.closed = False
        self._gate, self._spoil = gate, spoil

    def run(self, feed: Arrays) -> dict[str, np.ndarray]:
        self._gate(feed)
        outputs = {f"{name}_out": np.array(array) for name, array in feed.items()}
        if self._spoil is not None:
            for array in outputs.values():
                array.fill(self._spoil)
        return outputs

    def close(self) -> None:
        self.closed = True


def null_graph(*inputs: TensorSpec, images: Mapping[str, ImageSettings] | None = None, **options) -> ServedGraph:
    """A null graph."""
    session = NullGraph(*inputs, **options)
    return ServedGraph("null-graph", session, session.inputs, images or {}, 1_700_000_002)


def says(text: str, *, after: str = "\n", then_end: bool = True):
    """A "model" that answers each prompt, which must end with ``after``, with this text, and then ends."""
    answer = [*text.encode(), *([EOS] if then_end else [])]
    mark = after.encode()[-1]

    def next_token(history: Sequence[int]) -> int:
        said = next((i for i, token in enumerate(reversed(history)) if token == mark), 0)
        return answer[said % len(answer)]

    return next_token


def alone(prompt: Sequence[int], max_tokens: int, **options) -> list[int]:
    """What a null model says when it serves one greedy request only, its end token included."""
    session = NullSession(1, len(prompt) + max_tokens, NullOptions(vocab_size=VOCAB, max_step_tokens=4096, **options))
    said: list[int] = []
    tokens, past = list(prompt), 0
    while len(said) < max_tokens and EOS not in said:
        batch = Batch(0, np.array([tokens], dtype=np.int64), np.array([past], dtype=np.int64))
        said.append(int(session.step(batch).logits[0].argmax()))
        past += len(tokens)
        tokens = [said[-1]]
    return said


def text_of(tokens: Sequence[int]) -> str:
    """The text of an answer: a character cut at its end is left out, impossible bytes read as U+FFFD."""
    raw, text = bytes(token for token in tokens if token < 256), ""
    while True:
        try:
            return text + raw.decode()
        except UnicodeDecodeError as e:
            text += raw[: e.start].decode()
            # Python's decoder of a stream takes the first two bytes of a surrogate for the beginning of a character.
            half = raw[e.start] == 0xED and e.start + 2 == len(raw) and 0xA0 <= raw[-1] <= 0xBF
            if half or e.reason == "unexpected end of data":
                return text
            text, raw = text + "\ufffd", raw[e.end :]
