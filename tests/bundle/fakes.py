"""A runtime whose logits follow from the tokens it was fed, and that can be told to go wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from chipwise.bundle import BundleWriter, EngineSpec, Manifest, ModelInfo, SelfTest, TensorEntry, record_self_test
from chipwise.engine import Batch, Session, StepOutput
from chipwise.model.scheme import FLOAT32, TensorScheme

VOCAB = 50
INT4 = TensorScheme(4, "uint4", group_size=32, axis=0, symmetric=False, scale_dtype="float32")


class FakeSession:
    """Logits depend on every token a slot holds, so a wrong chunk or position shows."""

    def __init__(
        self,
        n_slots: int = 1,
        max_context: int = 64,
        spoil: Callable[[npt.NDArray[np.float32]], None] = lambda logits: None,
        max_step_tokens: int = 4,
    ) -> None:
        self.n_slots = n_slots
        self.max_context = max_context
        self.vocab_size = VOCAB
        self.max_step_tokens = max_step_tokens
        self.closed = False
        self._spoil = spoil
        self._held: dict[int, list[int]] = {}

    def step(self, batch: Batch) -> StepOutput:
        assert batch.new_tokens <= self.max_step_tokens
        assert batch.rows == 1
        past = int(batch.past[0])
        held = self._held.get(batch.first_slot, [])[:past]
        assert len(held) == past
        held += batch.tokens[0].tolist()
        self._held[batch.first_slot] = held
        logits = np.random.default_rng(held).normal(size=(1, VOCAB)).astype(np.float32)
        self._spoil(logits)
        return StepOutput(logits)

    def held(self, slot: int) -> list[int]:
        """The tokens a slot holds."""
        return self._held[slot]

    def move_slot(self, source: int, target: int, tokens: int) -> None:
        self._held[target] = self._held[source][:tokens]

    def close(self) -> None:
        self.closed = True


class FakeEngine:
    """Remembers what it was asked to open."""

    name = "fake"

    def __init__(self, spoil: Callable[[npt.NDArray[np.float32]], None] = lambda logits: None) -> None:
        self.spoil = spoil
        self.files: dict[str, bytes] = {}
        self.options: dict[str, Any] = {}
        self.sessions: list[FakeSession] = []

    def open(self, files: Mapping[str, Path], *, n_slots: int, max_context: int, options: Mapping[str, Any]) -> Session:
        self.files = {role: path.read_bytes() for role, path in files.items()}
        self.options = dict(options)
        self.sessions.append(FakeSession(n_slots, max_context, self.spoil))
        return self.sessions[-1]


def a_self_test() -> SelfTest:
    return record_self_test(FakeSession(), [3, 1, 4, 1, 5, 9], max_tokens=3)


def a_manifest(**changes: Any) -> Manifest:
    fields: dict[str, Any] = {
        "name": "tiny",
        "target": "host",
        "engine": EngineSpec("fake", {"threads": 2}),
        "model": ModelInfo({"arch": "llama", "vocab_size": VOCAB}, "gguf", "Tiny", "apache-2.0"),
        "self_test": a_self_test(),
        "tensors": {
            "model.embed_tokens.weight": TensorEntry(INT4, "weights", 0, 64),
            "model.norm.weight": TensorEntry(FLOAT32, "weights", 64, 36),
        },
    }
    return Manifest(**(fields | changes))


def write_bundle(out: Path, *, manifest: Manifest | None = None, overwrite: bool = False) -> Path:
    """A whole small bundle: weights, a graph that names them, a report."""
    with BundleWriter(out, overwrite=overwrite) as writer:
        weights = writer.scratch("weights")
        weights.write_bytes(bytes(range(100)))
        stored = writer.add_file("weights", weights, ".bin")
        writer.add_bytes("decoder", b"graph with its weights in " + stored.encode(), ".onnx")
        writer.add_document("report.json", b'{"fine": true}')
        return writer.commit(manifest or a_manifest())
