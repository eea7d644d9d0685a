"""Rules about attention masks."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from chipwise.check.check_input import CheckInput, label
from chipwise.check.mask_sites import mask_sites
from chipwise.check.rule import Hit, rule


@rule
def mask_range(given: CheckInput) -> Iterator[Hit]:
    """The attention mask is far lower than a softmax needs.

    Why: In float16 -1e9 is -inf and a fully masked row becomes NaN; in int8 a range down to -1e4 leaves all scores in
    one step (cosine 0.771 in Rockchip's simulator where a mask of -30 gave 0.9992).

    Limit: exp(-30) is 1e-13 of a row's best key, so about -30 masks; where masked scores lie above the best one, as
    much lower: -65 for SmolLM2-135M, whose layer 10 scores later tokens up to 34 higher (measured on one prompt of 48
    tokens).

    Remedy: The build measures the scores and puts the smallest number that masks in its place, proven equal.
    """
    if given.graph is None:
        return
    roots: list[ir.Graph | ir.Function] = [given.graph.graph, *given.graph.functions.values()]
    sites = [site for root in roots for site in mask_sites(root)]
    if not sites:
        return
    lowest = min(site.lowest for site in sites)
    narrow = given.has_accelerator or (given.recipe is not None and given.recipe.integer_activations)
    more = f" and {len(sites) - 1} more" if len(sites) > 1 else ""
    yield Hit(
        "warning" if narrow else "info",
        f"{label(sites[0].softmax)}{more}",
        f"{lowest:g}",
        "about -30 to -65",
        f"{len(sites)} masked softmaxes",
    )
