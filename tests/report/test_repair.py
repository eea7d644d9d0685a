from __future__ import annotations

from chipwise.report.html import render_html
from chipwise.report.repair import KeptInFloat16, LayerLoss, RepairTry
from chipwise.report.report import Report

REPORT = Report(
    "t", "rk3588", "m", "w8a8",
    repairs=(
        RepairTry("w8a8", "plain", 0.55, 0.5, False, True, 1000, 7000),
        RepairTry("w8a8", "algorithm mmse", None, None, False, False, note="the toolkit <failed>"),
        RepairTry("w8a8", "2 values in float16", 0.9991, 0.998, True, True, 1200, None, 2),
    ),
    losses=(
        *(LayerLoss(f"fine{i}", "Conv", "INT8", 0.9999, 0.1, 0.9999, 0.1) for i in range(20)),
        LayerLoss("to_blame", "exSDPAttention", "INT8", 0.7, 26.9, 0.75, 26.8),
        LayerLoss("broken", "Add", "INT8", float("nan"), float("inf"), float("nan"), float("inf")),
    ),
    kept_float16=(KeptInFloat16("a", 8192, None), KeptInFloat16("b", 100, 350)),
)  # fmt: skip


def test_the_page_shows_what_was_tried_and_what_is_to_blame() -> None:
    page = render_html(REPORT)
    assert "the toolkit &lt;failed&gt;" in page
    blamed = page[page.index("Layers to blame") :]
    assert blamed.index("broken") < blamed.index("to_blame") < blamed.index("fine0")
    assert "fine19" not in page
    assert "not estimated" in page
    assert "exSDPAttention" in page


def test_without_a_repair_there_is_no_section() -> None:
    page = render_html(Report("t", "rk3588", "m", "w8a8"))
    assert "Layers to blame" not in page
    assert 'id="repair"' not in page


def test_it_is_read_back_as_written() -> None:
    read = Report.from_json(REPORT.to_json(), where="report.json")
    assert read.repairs == REPORT.repairs
    assert read.kept_float16 == REPORT.kept_float16
    assert read.to_json() == REPORT.to_json()
