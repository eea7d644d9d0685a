"""Sessions over small models, and the numbers the tests compare."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir

from chipwise.engine import Batch, Session
from chipwise.engine.onnxruntime import OnnxRuntimeEngine
from chipwise.model.decoder import GraphSpec, build_decoder
from chipwise.model.importer import load_model
from chipwise.rewrite.passes.ort_decoder import fuse_decoder
from tests.model.decoder.random_models import CASES, tokens

GOLDEN = Path(__file__).parent / "golden.npz"
CONTEXT = 48
# Of the largest logit. Float32 in another order differs by 4e-6 at most on these models.
TOLERANCE = 1e-4


def golden(case: str) -> np.ndarray:
    """What transformers answers to ``tokens()`` in float64, as float32 ``[n, vocab]`` (see write_golden.py)."""
    assert case in CASES
    with np.load(GOLDEN) as file:
        return file[case]


def write_graph(model_folder: Path, path: Path, spec: GraphSpec, *, fused: bool = False) -> Path:
    model = load_model(model_folder)
    graph = build_decoder(model.config, model.weights, spec)
    if fused:
        graph = fuse_decoder(graph, model.config)
    ir.save(graph, path)
    return path


def fused_file(model_folder: Path, folder: Path, context: int = CONTEXT) -> Path:
    return write_graph(model_folder, folder / "fused.onnx", GraphSpec("decode", context), fused=True)


def fused_session(model_folder: Path, folder: Path, *, n_slots: int = 3, context: int = CONTEXT) -> Session:
    files = {"decoder": fused_file(model_folder, folder, context)}
    return OnnxRuntimeEngine().open(files, n_slots=n_slots, max_context=context, options={"threads": 1})


def portable_session(
    model_folder: Path,
    folder: Path,
    *,
    prefill: tuple[int | None, ...] = (),
    decode: tuple[int | None, ...] = (),
    n_slots: int = 3,
    context: int = CONTEXT,
) -> Session:
    """A session over a prefill and a decode graph, each of the given (batch, tokens, rows) or symbolic ones."""
    files = {
        phase: write_graph(model_folder, folder / f"{phase}.onnx", GraphSpec(phase, context, *shape))
        for phase, shape in (("prefill", prefill), ("decode", decode))
    }
    return OnnxRuntimeEngine().open(files, n_slots=n_slots, max_context=context, options={"threads": 1})


def feed(session: Session, sequence: Sequence[int], chunks: Sequence[int], slot: int = 0) -> np.ndarray:
    """The logits after every token of a sequence that is fed in chunks, ``[n, vocab]``."""
    parts, past = [], 0
    for count in chunks:
        batch = Batch(slot, np.array([sequence[past : past + count]]), np.array([past]), "all")
        parts.append(session.step(batch).logits[0].copy())
        past += count
    return np.concatenate(parts)


def decode_side_by_side(session: Session, pasts: Sequence[int], steps: int) -> np.ndarray:
    """Prefixes of ``tokens()`` in neighbouring slots, then ``steps`` tokens more at once, ``[rows, steps, vocab]``."""
    sequence, lengths = tokens(), np.array(pasts)
    for slot, length in enumerate(pasts):
        size = min(session.max_step_tokens, 16)
        feed(session, sequence, [size] * (length // size) + [length % size] * (length % size > 0), slot)
    parts = []
    for step in range(steps):
        new = np.array([[sequence[length + step]] for length in pasts])
        parts.append(session.step(Batch(0, new, lengths + step)).logits.copy())
    return np.stack(parts, axis=1)


def distance(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference over the largest magnitude."""
    assert found.shape == wanted.shape
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def check_session(session: Session, wanted: np.ndarray) -> None:
    """Hold a session's prefill, chunks, single tokens and decode of several rows against known logits."""
    sequence = tokens()
    whole = min(len(sequence), session.max_step_tokens)
    assert distance(feed(session, sequence, [whole]), wanted[:whole]) < TOLERANCE
    assert distance(feed(session, sequence, [10, 1, 1, 5, 16, 1, 1, 6], slot=1), wanted) < TOLERANCE
    pasts, steps = (5, 20, 33), 4
    rows = np.stack([wanted[past : past + steps] for past in pasts])
    assert distance(decode_side_by_side(session, pasts, steps), rows) < TOLERANCE
