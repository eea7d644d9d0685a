from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.toolchain.rknn_accuracy import RknnLayerError, read_accuracy, value_of

RECORDED = Path(__file__).parent / "rknn_logs" / "outliers_rk3588_w8a8.error_analysis.txt"


def test_a_recorded_table() -> None:
    rows = read_accuracy(RECORDED.read_text("utf-8"))
    assert (len(rows), rows[0].tensor, rows[-1].tensor) == (43, "x", "y")
    by_name = {row.tensor: row for row in rows}
    assert by_name["layers.0.mlp.product-rs"] == RknnLayerError(
        "layers.0.mlp.product-rs", "Mul", 0.99284, 9.85043, 0.99540, 7.91305
    )
    assert max(rows, key=lambda row: row.loss).tensor == "layers.0.mlp.product-rs"
    assert by_name["layers.0.mlp.product-rs"].loss == pytest.approx(0.00926, abs=1e-5)


def test_layers_that_were_fused_into_the_next_have_no_numbers() -> None:
    rows = read_accuracy((RECORDED.parent / "conv_rk3588_w8a8.error_analysis.txt").read_text("utf-8"))
    assert [row.tensor for row in rows] == [
        "image", "image_int8", "r1", "r2", "pool_2conv0", "pool", "logits_mm", "logits_int8", "logits"
    ]  # fmt: skip


def test_what_is_not_finite_loses_all() -> None:
    (row,) = read_accuracy("[Conv] y_mm    nan | inf   nan | nan      \n[Conv] broken 1.0 | 2.0\nlayer_name   x")
    assert (row.tensor, math.isnan(row.cosine), row.loss) == ("y_mm", True, math.inf)
    assert RknnLayerError("y", "Conv", 0.5, 1.0, -0.2, 1.0).loss == math.inf


@given(st.text())
def test_anything_can_be_read(text: str) -> None:
    assert isinstance(read_accuracy(text), tuple)


@pytest.mark.parametrize(
    ("tensor", "value"),
    [
        ("layers.0.mlp.product-rs", "layers.0.mlp.product"), ("layers.0.mlp.down#2", "layers.0.mlp.down"), ("y", "y"),
        ("layers.0.mlp.down.sum-rs", "layers.0.mlp.down.sum"), ("layers.0.mlp.downwards", None),
        ("mask_cvt4sdpa", None),
    ],
)  # fmt: skip
def test_the_value_behind_a_tensor(tensor: str, value: str | None) -> None:
    values = ["layers.0.mlp.down", "layers.0.mlp.down.sum", "layers.0.mlp.product", "y"]
    assert value_of(tensor, values) == value
