"""The rungs of the repair ladder, the cheapest first: equal rewrites, another algorithm, finer groups, float16."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx_ir as ir

from chipwise.build.attempt import Algorithm, Attempt, Ends, Tried
from chipwise.build.graph_file import GraphFile, all_float
from chipwise.build.repair import Bench, Change
from chipwise.check.infer import infer_types
from chipwise.quant.calibration import calibrate
from chipwise.quant.emulate import stored_values
from chipwise.quant.equalize import equalize
from chipwise.quant.recipe import with_grain
from chipwise.report.report import RewriteStep
from chipwise.rewrite.pass_ import Feed, RewriteContext
from chipwise.rewrite.passes.equalized_channels import EqualizedChannels
from chipwise.rewrite.pipeline import run_passes
from chipwise.toolchain.rknn_accuracy import value_of
from chipwise.toolchain.rknn_build import WEIGHTLESS

# A range that loses a tenth of its width or more is worth a build.
_NARROWER = 0.9
# The toolkit's weights of 4 bits: groups from coarse to fine, each with more scales than the one before.
_GROUPS = (128, 32)
# Of what is lost in all, as the toolkit sees each layer by itself; measured anew after each.
_SHARES = (0.5, 0.75, 0.9)
_RANGES, _ALGORITHM = "ranges", "algorithm"
# Layers that compute nothing of their own.
_MOVES = frozenset({"Input", "exDataConvert", "Reshape", "Transpose"})


@dataclass(frozen=True)
class Ladder:
    """Makes the attempts of one graph.

    Attributes:
        feeds: The samples that calibrate.
        context: What rewrites are proven on.
        folder: Where graphs are written.
        rewrites: The rewrites it made are added here.
        clips: Whether the ends of values can be set.
        compiled: Whether the chip's own toolkit builds, which has algorithms, groups and float16 of its own.
    """

    feeds: Sequence[Feed]
    context: RewriteContext
    folder: Path
    rewrites: list[RewriteStep]
    clips: bool
    compiled: bool

    @property
    def changes(self) -> tuple[Change, ...]:
        """The rungs."""
        rungs: list[Change] = [self.equalized]
        if self.clips:
            rungs.append(self.clipped)
        if self.compiled:
            rungs += [self.algorithms, self.groups, self.weightless, self.float16]
        return tuple(rungs)

    def equalized(self, bench: Bench) -> Iterator[Attempt]:
        """Channels far larger than their neighbours shrink, and what reads them grows."""
        best = bench.best.attempt
        if not best.recipe.integer_activations:
            return
        model = _load(best.graph)
        factors = equalize(model, self.feeds, threads=self.context.threads)
        if not factors:
            return
        result = run_passes(model, [EqualizedChannels(factors)], self.context)
        step = result.steps[0]
        notes = "; ".join(step.notes)
        self.rewrites.append(RewriteStep(step.name, int(step.modified), step.max_abs_diff or None, notes))
        if step.modified:
            infer_types(result.model)
            graph = GraphFile.save(result.model, self.folder, "equalized", all_float(result.model))
            yield best.changed(f"channels of {len(factors)} values evened out", graph=graph)

    def clipped(self, bench: Bench) -> Iterator[Attempt]:
        """Ranges that clip rare values, where that loses less than the wider steps do."""
        best = bench.best.attempt
        if not best.recipe.integer_activations:
            return
        model = _load(best.graph)
        seen = calibrate(model, self.feeds, stored_values(model), histograms=True, threads=self.context.threads)
        ranges: dict[str, Ends] = {}
        for name, one in seen.items():
            tight = one.tightened()
            if tight.high - tight.low < _NARROWER * (max(one.high, 0.0) - min(one.low, 0.0)):
                ranges[name] = (tight.low, tight.high)
        if ranges:
            yield best.changed(f"{_RANGES} of {len(ranges)} values clipped", ranges=ranges)

    def algorithms(self, bench: Bench) -> Iterator[Attempt]:
        """The toolkit's other ways to choose scales; they choose ranges themselves."""
        recipe = bench.best.attempt.recipe
        names: tuple[Algorithm, ...] = ("mmse", "kl_divergence") if recipe.integer_activations else ("gdq",)
        for name in names:
            if not bench.passed:
                yield _own_scales(bench.best.attempt).changed(f"{_ALGORITHM} {name}", algorithm=name)

    def groups(self, bench: Bench) -> Iterator[Attempt]:
        """Smaller groups of weights that share a scale."""
        for size in _GROUPS:
            best = bench.best.attempt
            now = best.recipe.group_size
            if best.recipe.scheme != "w4a16" or best.recipe.explicit or bench.passed:
                return
            if now is None or now > size:
                yield best.changed(f"groups of {size} weights", recipe=with_grain(best.recipe, size))

    def weightless(self, bench: Bench) -> Iterator[Attempt]:
        """Operators without weights in float16: no byte of the model more, and more cycles."""
        best = bench.best.attempt
        if best.recipe.integer_activations and not best.weightless_float16:
            yield best.changed("operators without weights in float16", weightless_float16=True)

    def float16(self, bench: Bench) -> Iterator[Attempt]:
        """Values that lose most stay in float16: those of half of all loss, of more if needed, then fewer again."""
        added: Sequence[str] = ()
        for share in _SHARES:
            best = bench.best.attempt
            if bench.passed or not best.recipe.integer_activations:
                break
            added = _largest(losing_values(bench.best), share)
            if not added:
                return
            kept = (*best.float16, *added)
            yield best.changed(f"{len(kept)} values in float16", float16=kept)
        last, left = bench.best.attempt, len(added)
        while left > 1 and bench.passed and bench.best.attempt.float16 == last.float16:
            left //= 2
            fewer = last.float16[: len(last.float16) - left]
            if fewer:
                words = f"{len(fewer)} values in float16"
                yield replace(last, float16=fewer, changes=(*last.changes[:-1], words))


def _own_scales(attempt: Attempt) -> Attempt:
    """An attempt without what chose its scales before."""
    left = tuple(one for one in attempt.changes if not one.startswith((_RANGES, _ALGORITHM)))
    return replace(attempt, ranges={}, algorithm="normal", changes=left)


def losing_values(tried: Tried) -> dict[str, float]:
    """What each value of a compiled graph loses by itself, by the toolkit's own account, the most first.

    A value that is in float16 already and still loses does so by what it reads: that takes its place.
    """
    compiled = tried.compiled
    if compiled is None:
        return {}
    graph = _load(tried.attempt.graph).graph
    computed = {str(value.name): node for node in graph for value in node.outputs}
    attempt = tried.attempt
    kept = set(attempt.float16)
    found: dict[str, float] = {}
    for row in compiled.losses:
        name = None if row.op_type in _MOVES else value_of(row.tensor, computed)
        if name is None:
            continue
        sources = [name]
        if name in kept or (attempt.weightless_float16 and row.op_type in WEIGHTLESS):
            sources = [str(value.name) for value in computed[name].inputs if value is not None]
        for source in sources:
            if source in computed and source not in kept:
                found[source] = max(found.get(source, 0.0), row.loss)
    return dict(sorted(found.items(), key=lambda one: -one[1]))


def _largest(losses: dict[str, float], share: float) -> tuple[str, ...]:
    """The fewest values that make up a share of all loss."""
    wanted = share * sum(losses.values())
    found, total = [], 0.0
    for name, loss in losses.items():
        if total >= wanted:
            break
        found.append(name)
        total += loss
    return tuple(found)


def _load(graph: GraphFile) -> ir.Model:
    model = ir.load(graph.path)
    infer_types(model)
    return model
