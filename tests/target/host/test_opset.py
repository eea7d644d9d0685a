from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.target.host import opset


def test_the_runtime_tells_its_opset() -> None:
    highest = opset.opset_max("2026-11-29")
    assert highest is not None
    assert 21 <= highest.value < 1000


def test_a_runtime_that_does_not_refuse_leaves_it_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opset, "_PROBE", Path(opset.__file__).parent / "probes" / "matmul_fp32.onnx")
    assert opset.opset_max("2026-11-29") is None


def test_a_refusal_in_other_words_leaves_it_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opset, "_LIMIT", opset.re.compile("never said"))
    assert opset.opset_max("2026-11-29") is None
