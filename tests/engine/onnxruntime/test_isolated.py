"""A real model in a process of its own computes the same bits, and its weights are there and not here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chipwise.engine import Batch
from chipwise.engine.isolated import IsolatedEngine
from chipwise.engine.onnxruntime import OnnxRuntimeEngine
from chipwise.engine.session import PaddedPrefill, draft_limits
from tests.model.decoder.random_models import tokens
from tests.model.decoder.sessions import CONTEXT


@pytest.mark.parametrize("form", ["fused", "static"])
def test_logits_and_kv_are_the_same_bits(form: str, graph_files: dict[str, dict[str, Path]]) -> None:
    settings = {"n_slots": 3, "max_context": CONTEXT, "options": {"threads": 1}}
    ours = OnnxRuntimeEngine().open(graph_files[form], **settings)
    theirs = IsolatedEngine("onnxruntime").open(graph_files[form], **settings)
    try:
        assert theirs.whole_tokens == (ours.whole_tokens if isinstance(ours, PaddedPrefill) else 1)
        assert draft_limits(theirs) == draft_limits(ours)
        sequence = np.array(tokens())
        batches = [
            Batch(0, sequence[None, :20], np.array([0])),
            Batch(1, sequence[None, 5:20], np.array([0]), "all"),
            Batch(0, sequence[20:22, None], np.array([20, 15])),
        ]
        if draft_limits(ours)[0]:
            batches.append(Batch(0, sequence[None, 21:23], np.array([21]), "all", np.array([2])))
        for batch in batches:
            assert np.array_equal(ours.step(batch).logits, theirs.step(batch).logits)
        for session in (ours, theirs):
            session.move_slot(0, 2, 21)
        assert np.array_equal(ours.save_slot(2, 21), theirs.save_slot(2, 21))
        for session in (ours, theirs):
            session.load_slot(1, session.save_slot(2, 10))
        again = Batch(1, sequence[None, 10:12], np.array([10]))
        assert np.array_equal(ours.step(again).logits, theirs.step(again).logits)
        maps = Path("/proc/self/maps").read_text()
        assert "onnx" not in "".join(line for line in maps.splitlines() if str(graph_files[form]) in line)
    finally:
        ours.close()
        theirs.close()
