from __future__ import annotations

from dataclasses import replace

import pytest

from chipwise.engine.known_fault import Symptom
from chipwise.engine.rknn.known_faults import explain
from chipwise.model.rknn_file import RknnFile, RknnOperator

FILE = RknnFile(6, ("rk3576",), "2.3.2", "ONNX", (), (), (), (), 1, None, None, 100)
ATTENTION = replace(FILE, operators=(RknnOperator("exSDPAttention", "a", "npu"), RknnOperator("exNorm", "n", "npu")))
CONV = replace(FILE, operators=(RknnOperator("Conv", "c", "npu"),))


def test_attention_that_returns_zeros() -> None:
    text = explain("zeros", ATTENTION, chip="rk3576", runtime="2.3.2")
    assert text is not None
    assert (
        "exSDPAttention on rk3576 returned all zeros with runtimes 2.3.2 and 2.4.2a2, rknn-toolkit2 issue 574" in text
    )
    assert text.endswith("here: rk3576, librknnrt 2.3.2")


@pytest.mark.parametrize(
    ("symptom", "file", "chip", "part"),
    [
        ("not_finite", ATTENTION, "rk3588", "issues 149 and 212"),
        ("zeros", replace(FILE, operators=None), "rk3576", "issue 574"),  # its operators cannot be read
        ("zeros", ATTENTION, None, "here: unknown chip"),
        ("zeros", ATTENTION, "rk3588", None),
        ("zeros", CONV, "rk3576", None),
        ("not_finite", CONV, "rk3576", None),
        ("differs", ATTENTION, "rk3576", None),
    ],
)
def test_only_what_fits(symptom: Symptom, file: RknnFile, chip: str | None, part: str | None) -> None:
    text = explain(symptom, file, chip=chip, runtime="2.3.2")
    assert text is None if part is None else part in (text or "")


def test_versions_that_differ_are_told_for_any_symptom() -> None:
    text = explain("differs", replace(CONV, toolkit_version="2.5.0"), chip="rk3576", runtime="2.4.2a2")
    assert text == ("toolkit 2.5.0 compiled it, another version than the runtime's; here: rk3576, librknnrt 2.4.2a2")
    assert explain("differs", CONV, chip="rk3576", runtime=None) is None
