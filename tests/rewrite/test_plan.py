from __future__ import annotations

import pytest

from chipwise.rewrite.pipeline import _require_order
from chipwise.rewrite.plan import activation_forms, passes_for
from chipwise.target.catalog import catalog, load_target
from chipwise.target.placement import Placement
from tests.check.graphs import SOURCE, fact, q, target


def _names(name: str) -> list[str]:
    return [one.name for one in passes_for(load_target(name))]


def test_rk3588() -> None:
    names = _names("rk3588")
    assert names[0] == "input_types"
    assert {"opset_conversion", "explicit_epsilon", "mask_constant", "erf_by_tanh", "split_wide_matmul"} <= set(names)
    assert "reshaped_attention" in names
    assert names[-1] == "constants_as_initializers"
    assert "einsum_by_matmul" not in names
    assert "ort_fusions" not in names


def test_a_cpu() -> None:
    names = _names("cortex-a76")
    assert "ort_fusions" in names
    assert not {"opset_conversion", "explicit_epsilon", "input_types"} & set(names)


@pytest.mark.parametrize("name", sorted(catalog()))
def test_every_targets_passes_are_in_order(name: str) -> None:
    _require_order(passes_for(load_target(name)))


def test_the_operator_where_the_accelerator_and_the_toolchain_have_it() -> None:
    table = (Placement("npu", ("Gelu", "Mish"), SOURCE),)
    forms = activation_forms(target(placement=table, opset_max=q(19)).constraints)
    assert forms == {"gelu": "written_out", "gelu_tanh": "written_out", "silu": "written_out", "mish": "operator"}
    assert activation_forms(target(placement=table).constraints)["gelu"] == "operator"


def test_what_the_target_says_nothing_about_is_left_alone() -> None:
    names = [one.name for one in passes_for(target(explicit_epsilon=fact(False)))]
    assert not {"explicit_epsilon", "einsum_by_matmul", "erf_by_tanh"} & set(names)
