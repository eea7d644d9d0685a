from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.check.mask_sites import mask_sites
from chipwise.rewrite.passes.constant_folding import ConstantFolding
from chipwise.rewrite.passes.mask_constant import SmallestMask
from chipwise.rewrite.passes.widen_floats import WidenFloats
from tests.check.graphs import SELECTED, added, attention, graph
from tests.rewrite.helpers import attention_feed, ops, rewritten, unchanged

LIVE = (attention_feed([1, 1, 1, 1, 0, 0]), attention_feed([1, 0, 1, 1, 1, 1], seed=1))
DEAD = (*LIVE, attention_feed([0] * 6, seed=2))

CHOSEN = (
    "b = Cast<to=9>(attention_mask) ax = Constant<value_ints=[1,2]>() u = Unsqueeze(b, ax)"
    " z = Constant<value_float=0.0>() c = Constant<value={}>() w = Where(u, z, c) j = Add(s, w)"
)
MASKS = {
    "added -1e9": added("-1e9"),
    "added -1e4": added("-1e4"),
    "added float32's lowest": added("-3.4028234e38"),
    "selected -1e4": SELECTED,
    "selected -1e9": SELECTED.replace("-1e4", "-1e9"),
    "clamped": added("-3.4e38").replace("j = Add", "j0 = Add") + " j = Max(j0, c)",
    "two": added("-1e9").replace("j = Add", "j0 = Add")
    + " t = Constant<value=float[6] {0,0,-1e9,0,0,0}>() j = Add(j0, t)",
    "cast": added("-1e9").replace("j = Add", "j0 = Add") + " j = Cast<to=1>(j0)",
}


def _with_infinity(model: ir.Model) -> ir.Model:
    """The text form has no infinity: put it in the place of -7e37."""
    for node in model.graph:
        if node.op_type == "Constant" and "value" in node.attributes:
            array = node.attributes["value"].as_tensor().numpy()
            if (array == np.float32(-7e37)).any():
                node.attributes["value"] = ir.AttrTensor("value", ir.tensor(np.array(-np.inf, np.float32)))
    return model


@pytest.mark.parametrize("name", MASKS)
def test_the_number_shrinks_and_the_outputs_stay(name: str) -> None:
    result = rewritten(attention(MASKS[name]), SmallestMask(), samples=LIVE)
    (step,) = result.steps
    assert step.modified, step.notes
    assert step.max_rel_diff < 1e-5
    assert mask_sites(result.model.graph) == []
    number = float(step.notes[0].split(" becomes ")[1].split()[0])
    assert -60 < number < -14


@pytest.mark.parametrize("name", MASKS)
def test_fully_masked_rows_come_out_the_same(name: str) -> None:
    (step,) = rewritten(attention(MASKS[name]), SmallestMask(), samples=DEAD).steps
    assert step.modified, step.notes
    assert "12 rows of the inputs are fully masked" in step.notes
    assert step.max_rel_diff < 5e-4


def test_only_masks_that_swallow_the_scores_become_a_where() -> None:
    assert "Where" in ops(rewritten(attention(MASKS["added -1e9"]), SmallestMask(), samples=DEAD).model)
    assert "Where" not in ops(rewritten(attention(MASKS["added -1e4"]), SmallestMask(), samples=DEAD).model)
    assert "Where" not in ops(rewritten(attention(MASKS["added -1e9"]), SmallestMask(), samples=LIVE).model)


@pytest.mark.parametrize(
    "mask", [CHOSEN.format("float {-7e37}"), SELECTED.replace("value_float=-1e4", "value=float {-7e37}")]
)
def test_infinity_and_the_nan_it_makes(mask: str) -> None:
    model = _with_infinity(graph(attention(mask)))
    live = rewritten(model, SmallestMask(), samples=LIVE)
    assert live.steps[0].notes[0].startswith("mask -inf becomes ")
    assert live.steps[0].max_rel_diff < 1e-5
    dead = rewritten(model, SmallestMask(), samples=DEAD)
    assert dead.steps[0].modified
    assert dead.total is not None
    assert dead.total.differences[0].cured == 2 * 6 * 8


def test_large_scores_need_a_lower_mask() -> None:
    large = tuple({**feed, "q": feed["q"] * 10} for feed in LIVE)
    small = rewritten(attention(MASKS["added -1e9"]), SmallestMask(), samples=LIVE).steps[0]
    wide = rewritten(attention(MASKS["added -1e9"]), SmallestMask(), samples=large).steps[0]
    numbers = [float(step.notes[0].split(" becomes ")[1].split()[0]) for step in (small, wide)]
    assert numbers[1] < numbers[0] - 20
    assert wide.max_rel_diff < 1e-5


def test_a_constant_that_others_use_keeps_its_number_for_them() -> None:
    body = attention(MASKS["added -1e9"]).replace("(float[1,2,6,8] y)", "(float[1,2,6,8] y, float low)")
    body = body.replace(" mm = Mul", " low = Identity(c) mm = Mul")
    result = rewritten(body, SmallestMask(), samples=LIVE)
    assert result.steps[0].modified


def test_a_shared_mask_serves_every_softmax() -> None:
    mask = added("-1e9") + " p0 = Softmax<axis=-1>(j) j2 = Add(p0, mm)"
    body = attention(mask).replace("p = Softmax<axis=-1>(j)", "p = Softmax<axis=-1>(j2)")
    result = rewritten(body, SmallestMask(), samples=LIVE)
    assert mask_sites(result.model.graph) == []


def test_a_mask_in_float16_after_widening() -> None:
    mask = added("-1e4").replace("Cast<to=1>", "Cast<to=10>")
    for name in ("o", "c"):
        mask = mask.replace(f" {name} = Constant", f" {name}32 = Constant")
    mask = mask.replace("d = Sub", "o = Cast<to=10>(o32) d = Sub").replace("mm = Mul", "c = Cast<to=10>(c32) mm = Mul")
    body = attention(mask).replace("float[", "float16[")
    result = rewritten(body, WidenFloats(), ConstantFolding(), SmallestMask(), samples=DEAD)
    assert [step.modified for step in result.steps] == [True, True, True], result.steps[-1].notes
    assert mask_sites(result.model.graph) == []


def test_what_is_small_already_stays() -> None:
    unchanged(attention(added("-30.0")), SmallestMask(), samples=LIVE)
    unchanged("g (float[2,4] x) => (float[2,4] y) { y = Softmax(x) }", SmallestMask())


def test_inputs_that_mask_everything_tell_nothing() -> None:
    notes = unchanged(attention(MASKS["added -1e9"]), SmallestMask(), samples=DEAD[-1:])
    assert notes == ("every row of the inputs is fully masked: the mask stays",)


def test_scores_that_reach_the_mask_leave_it() -> None:
    huge = tuple({**feed, "q": feed["q"] * 1e4} for feed in LIVE)
    (step,) = rewritten(attention(MASKS["added -1e4"]), SmallestMask(), samples=huge).steps
    assert not step.modified
