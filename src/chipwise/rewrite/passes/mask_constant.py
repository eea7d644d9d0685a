"""Mask constant: the smallest number that still masks, in place of -1e9, -1e4 or -inf."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from chipwise.check.constants import constant_array
from chipwise.check.mask_sites import MASKING, MaskConstant, MaskSite, fill_of, mask_sites
from chipwise.rewrite.edit import Patch, inline_functions, remove_unused
from chipwise.rewrite.mask_range import MaskRange, measure
from chipwise.rewrite.pass_ import PassResult, RewriteContext, Tolerance
from chipwise.rewrite.prove import samples_for

# Where a mask's neighbours lie this far apart, adding a score to it loses the score (at -4e6).
_ABSORBING_STEP = 0.5

# In a fully masked row -1e4 has rounded the scores to steps of 1e-3, which the small mask does not.
_TOLERANCE = Tolerance(max_rel=5e-4, max_abs=1e-6, cures_nan=True)


@dataclass(frozen=True)
class SmallestMask:
    """Replace masking numbers by the smallest that still masks, as measured on real inputs.

    In float16 -1e9 is -inf and a fully masked row gives NaN; in int8 a range down to -1e4 leaves all scores in one
    step (cosine 0.771 in Rockchip's simulator where -30 gives 0.9992).

    1. Added masks: every masking constant on the way becomes ``m``, such that the masked keys of a row together weigh
       at most 1e-6 of its best key, with a quarter of the measured range of scores to spare.
    2. Selecting masks (Where): the same, measured from the lowest of the rows' best scores.
    3. Rows in which everything is masked: where the old number was so low that the scores were lost (uniform weights)
       or -inf (NaN), an added mask becomes a Where, so that the row is uniform. Selecting masks are uniform anyway.
    4. Masks joined twice, clamped by Max, cast, or computed as ``(1 - mask) * number``.
    5. A mask that is small already, or that no input tells about, stays.

    All softmaxes get the same number. Passing the proof means that no weight that mattered was lost.
    """

    name: str = "mask_constant"
    requires: tuple[str, ...] = ("fix_shapes", "constant_folding")
    optional: bool = True
    tolerance: Tolerance = _TOLERANCE

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Measure, choose, replace.

        Raises:
            RewriteError: The model does not run, so nothing can be measured.
        """
        if not mask_sites(model.graph):
            return PassResult(model, False)
        inline_functions(model)
        sites = mask_sites(model.graph)
        feeds, _ = samples_for(model, context)
        ranges = measure(model, feeds, threads=context.threads)
        known = [(site, found) for site, found in zip(sites, ranges, strict=True) if found is not None]
        if not known:
            return PassResult(model, False, ("every row of the inputs is fully masked: the mask stays",))
        number = _number(known)
        if number <= max(site.highest for site, _ in known):
            return PassResult(model, False, (f"the scores need a mask of {number:g}, no smaller than it is",))
        old = min(site.lowest for site, _ in known)
        selected = sum(_select(site, number) for site, found in known if _loses_dead_rows(site, found))
        for site, _ in known:
            for constant in site.constants:
                _replace(constant, number)
        remove_unused(model)
        notes = [f"mask {old:g} becomes {number:g} at {len(known)} softmaxes"]
        dead = max(found.dead_rows for _, found in known)
        if dead:
            notes.append(f"{dead} rows of the inputs are fully masked")
        if selected:
            notes.append(f"{selected} Add became Where, which leaves those rows uniform")
        return PassResult(model, True, tuple(notes))


def _number(known: list[tuple[MaskSite, MaskRange]]) -> float:
    """A whole number low enough for every site."""
    needed = []
    for site, found in known:
        needed.append(found.needed(additive=site.additive))
        if len(site.masks) > 1 or found.dead_rows or any(c.user.op_type in ("Max", "Clip") for c in site.constants):
            # A selection and an addition may both decide: in a row of masks, or where a sum is clamped.
            needed.append(found.needed(additive=not site.additive))
    return float(math.floor(min(needed)))


def _loses_dead_rows(site: MaskSite, found: MaskRange) -> bool:
    # In float32 even for a float16 graph: that is what the CPU that proves it computes in.
    step = abs(site.lowest) * float(np.finfo(np.float32).eps)
    return site.additive and found.dead_rows > 0 and step >= _ABSORBING_STEP


def _select(site: MaskSite, number: float) -> bool:
    """Put ``Where(a mask is low, number for each such mask, scores + masks)`` behind the last Add.

    A key that two masks block weighed nothing beside one that a single mask blocks, so it counts twice here too.
    """
    joined = site.join.outputs[0]
    users = list(joined.uses())
    patch = Patch.behind(site.join)
    dtype = joined.dtype or ir.DataType.FLOAT
    low, zero = patch.constant(number, dtype), patch.constant(0.0, dtype)
    half = patch.constant(number / 2, dtype)
    blocked: ir.Value | None = None
    total: ir.Value | None = None
    for mask in site.masks:
        one = patch.op("Less", [mask, half])
        blocked = one if blocked is None else patch.op("Or", [blocked, one])
        if len(site.masks) > 1:
            level = patch.op("Where", [one, low, zero])
            total = level if total is None else patch.op("Add", [total, level])
    chosen = patch.op("Where", [blocked, low if total is None else total, joined], like=joined)
    for user, index in users:
        user.replace_input_with(index, chosen)
    return True


def _replace(constant: MaskConstant, number: float) -> None:
    """Give the user of a masking constant one with the new number; others keep the old."""
    if constant.user.graph is None or constant.user.inputs[constant.index] is not constant.value:
        return  # another site that shares this mask has done it
    patch = Patch(constant.user)
    array = constant_array(constant.value)
    if array is not None:
        new = patch.constant(np.where(array <= MASKING, number, array).astype(array.dtype))
    else:
        node = constant.value.producer()
        fill = fill_of(node)
        if node is None or fill is None:
            return
        tensor = ir.tensor(np.full_like(fill, number))
        new = patch.op("ConstantOfShape", list(node.inputs), {"value": tensor}, like=constant.value)
    constant.user.replace_input_with(constant.index, new)
