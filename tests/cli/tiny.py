"""Bundles of the tiny session, and an engine that opens them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chipwise.bundle import BundleWriter, EngineSpec, Manifest, ModelInfo, TensorEntry, record_self_test
from chipwise.engine import Session
from chipwise.model.scheme import FLOAT32
from chipwise.report.verdict import Verdict
from chipwise.verify.generate import Prompt, generate
from tests.bundle.fakes import INT4
from tests.verify.fakes import EOS, VOCAB, TinySession, prompts_of
from tests.verify.words import word_tokenizer


class TinyEngine:
    """Opens tiny sessions; the bundle's options say how damaged."""

    name = "tiny"

    def __init__(self) -> None:
        self.sessions: list[TinySession] = []

    def open(self, files: Mapping[str, Path], *, n_slots: int, max_context: int, options: Mapping[str, Any]) -> Session:
        chosen = {name: value for name, value in options.items() if name != "threads"}
        # Positions are drawn for the context: the same for every length asked for.
        session = TinySession(n_slots=n_slots, max_context=64, **chosen)
        session.max_context = max_context
        self.sessions.append(session)
        return session


def built(
    place: Path,
    *,
    words: bool = True,
    more_words: bool = False,
    context: int = 64,
    four_bits: bool = True,
    documents: Mapping[str, bytes] | None = None,
    verdicts: tuple[Verdict, ...] = (),
    **options: Any,
) -> Path:
    """A bundle of a tiny session; options are those of the session."""
    with BundleWriter(place) as writer:
        weights = writer.scratch("weights")
        weights.write_bytes(bytes(100))
        writer.add_file("decoder", weights, ".bin")
        if words:
            writer.add_tokenizer(word_tokenizer(VOCAB + more_words))
        for name, data in (documents or {}).items():
            writer.add_document(name, data)
        test = record_self_test(TinySession(**options), [3, 4, 5], max_tokens=2)
        entry = TensorEntry(INT4 if four_bits else FLOAT32, "decoder", 0, 64)
        info = ModelInfo({"vocab_size": VOCAB, "max_positions": context}, "gguf", "Tiny")
        spec = EngineSpec("tiny", options)
        return writer.commit(Manifest("tiny", "host", spec, info, test, tensors={"w": entry}, verdicts=verdicts))


def write_suite(path: Path) -> Path:
    """Eight cases that the sound model gets right: the keyword is the first word of its answer."""
    prompts = [Prompt(tokens, 6) for tokens in prompts_of(9, 12)]
    answers = [answer.tokens for answer in generate(TinySession(), prompts, eos_ids=[EOS])]
    lines = [
        {
            "id": str(i),
            "prompt": " ".join(f"w{t}" for t in prompt.tokens),
            "max_tokens": 6,
            "keywords": [f"w{answer[0]}"],
        }
        for i, (prompt, answer) in enumerate(zip(prompts, answers, strict=True))
        if answer[0] != EOS
    ]
    path.write_text("\n".join(map(json.dumps, lines[:8])))
    return path
