from __future__ import annotations

import pytest

from chipwise.check.mask_sites import mask_sites
from tests.check.graphs import SELECTED, added, attention, graph


def test_an_added_mask() -> None:
    (site,) = mask_sites(graph(attention(added("-1e9"))).graph)
    assert site.additive
    assert site.softmax.op_type == "Softmax"
    assert site.scores.name == "s"
    assert [mask.name for mask in site.masks] == ["mm"]
    assert site.lowest == pytest.approx(-1e9)


def test_a_selecting_mask() -> None:
    (site,) = mask_sites(graph(attention(SELECTED)).graph)
    assert not site.additive
    assert [mask.name for mask in site.masks] == ["u"]
    assert site.lowest == -1e4


def test_the_scores_may_stand_on_either_side() -> None:
    (site,) = mask_sites(graph(attention(added("-1e9").replace("Add(s, mm)", "Add(mm, s)"))).graph)
    assert site.scores.name == "s"


def test_a_chosen_mask_that_is_added_and_clamped() -> None:
    mask = (
        "b = Cast<to=9>(attention_mask) ax = Constant<value_ints=[1,2]>() u = Unsqueeze(b, ax)"
        " z = Constant<value_float=0.0>() c = Constant<value_float=-3.4e38>() w = Where(u, z, c)"
        " j0 = Add(s, w) j = Max(j0, c)"
    )
    (site,) = mask_sites(graph(attention(mask)).graph)
    assert sorted(constant.user.op_type for constant in site.constants) == ["Max", "Where"]


def test_two_masks_in_a_row() -> None:
    mask = (
        added("-1e9").replace("j = Add", "j0 = Add") + " t = Constant<value=float[6] {0,0,-1e4,0,0,0}>() j = Add(j0, t)"
    )
    (site,) = mask_sites(graph(attention(mask)).graph)
    assert [one.name for one in site.masks] == ["t", "mm"]
    assert (site.lowest, site.highest) == (pytest.approx(-1e9), -1e4)


def test_a_mask_filled_by_constant_of_shape() -> None:
    mask = (
        "n = Constant<value_ints=[6,6]>() m = ConstantOfShape<value=float[1] {-1e9}>(n) k1 = Constant<value_int=1>()"
        " t = Trilu<upper=1>(m, k1) j = Add(s, t)"
    )
    (site,) = mask_sites(graph(attention(mask)).graph)
    assert [constant.user.op_type for constant in site.constants] == ["Trilu"]


@pytest.mark.parametrize(
    "mask",
    [
        "j = Identity(s)",
        "c = Constant<value_float=-30.0>() j = Add(s, c)",
        "e = Constant<value_float=-5e4>() t = Mul(s, e) j = Add(s, s)",
    ],
)
def test_what_is_no_mask(mask: str) -> None:
    assert mask_sites(graph(attention(mask)).graph) == []
