from __future__ import annotations

import pytest

from chipwise.target import Alignment, Constraints, Placement, Provenance, Quantity, SchemeSupport

SOURCE = Provenance("vendor", "sheet", "2026-11")


def test_the_first_group_that_names_an_operator_places_it() -> None:
    constraints = Constraints(
        placement=(
            Placement("npu", ("*",), SOURCE),
            Placement("cpu", ("Erf", "Exp"), SOURCE, "measured"),
            Placement("npu", ("Exp",), SOURCE),
        )
    )
    exp, other = constraints.place("Exp"), constraints.place("MatMul")
    assert exp is not None
    assert exp.place == "cpu"
    assert other is not None
    assert other.place == "npu"


def test_an_operator_nobody_speaks_of_has_no_place() -> None:
    assert Constraints(placement=(Placement("cpu", ("Erf",), SOURCE),)).place("MatMul") is None


def test_a_group_of_no_operators_is_refused() -> None:
    with pytest.raises(ValueError, match="ops: is empty"):
        Placement("cpu", (), SOURCE)


@pytest.mark.parametrize(("weights", "sizes"), [(("group",), ()), (("channel",), (32,)), (("group",), (0,))])
def test_groups_and_sizes_go_together(weights: tuple[str, ...], sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="group_sizes"):
        SchemeSupport("w4a16", "rknn", SOURCE, weights=weights, group_sizes=sizes)  # type: ignore[arg-type]


def test_takes_group() -> None:
    both = SchemeSupport("w4a16", "rknn", SOURCE, weights=("channel", "group"), group_sizes=(32, 64))
    groups = SchemeSupport("w8a16", "onnxruntime", SOURCE, weights=("group",), group_sizes=(32,))
    assert both.takes_group(64)
    assert both.takes_group(None)
    assert not both.takes_group(48)
    assert not groups.takes_group(None)


def test_an_alignment_is_in_bytes_or_elements() -> None:
    with pytest.raises(ValueError, match="multiple: expected bytes"):
        Alignment("matmul_k", Quantity(1e9, "Hz", SOURCE))
