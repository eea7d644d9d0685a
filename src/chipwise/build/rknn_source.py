"""RknnSource: a decoder's float graphs in the form that Rockchip's toolkit takes, proven to be the same model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from chipwise.build.graph_files import GraphFiles
from chipwise.build.logits_proof import proven, read_logits
from chipwise.build.repaired_decoder import RepairedDecoder
from chipwise.check.infer import infer_types
from chipwise.model.onnx_file_writer import save_graphs
from chipwise.quant.product_groups import product_groups
from chipwise.report.report import RewriteStep
from chipwise.rewrite.pass_ import Pass, RewriteContext
from chipwise.rewrite.passes.constants_as_initializers import ConstantsAsInitializers
from chipwise.rewrite.passes.split_wide_matmul import SplitWideMatMul
from chipwise.target import Target


@dataclass(frozen=True)
class RknnSource:
    """The static pair that is handed to the toolkit.

    Attributes:
        files: The graphs.
        steps: The proofs.
    """

    files: GraphFiles
    steps: tuple[RewriteStep, ...]

    def product_weights(self, names: Collection[str]) -> list[str]:
        """The constants that products read and that were made of weights of some names: whole, or in pieces."""
        known = {
            weight
            for path in self.files.files.values()
            for group in product_groups(ir.load(path))
            for weight in group.weights
        }
        return sorted(weight for weight in known if any(weight.startswith(name) for name in names))


def write_source(
    decoder: RepairedDecoder,
    target: Target,
    stem: str,
    folder: Path,
    *,
    prompt: Sequence[int],
    threads: int,
) -> RknnSource:
    """Write the pair, and hold its logits against those of the graphs it was made of.

    Args:
        decoder: The decoder.
        target: The chip.
        stem: What the files are called.
        folder: Where they are written.
        prompt: A real prompt.
        threads: Threads of a run.

    Raises:
        RewriteError: A logit moved by more than float32 sums in another order do.
        OutputError: The disk does not take it.
    """
    graphs = decoder.graphs
    # A Gather of rows runs on the CPU of every chip.
    pair = graphs.pair(graphs.mask_value, all_rows=True)
    notes: list[str] = []
    for role, model in pair.items():
        found = _prepare(model, target)
        notes += found if role == "prefill" else []
    saved = save_graphs({f"{stem}.{role}": model for role, model in pair.items()}, folder, f"{stem}.bin")
    files = GraphFiles(
        files={role: saved[f"{stem}.{role}"].path for role in pair}, weights=folder / f"{stem}.bin",
        context=decoder.reference.context,
    )  # fmt: skip
    short = prompt[: graphs.prefill_tokens]
    moved = proven("prepare_for_rknn", *(read_logits(one, short, threads) for one in (decoder.reference, files)))
    prepared = RewriteStep("prepare_for_rknn", len(notes), moved, "; ".join(notes))
    return RknnSource(files, (*decoder.steps, prepared))


def _prepare(model: ir.Model, target: Target) -> list[str]:
    """Bring a graph into the toolkit's form, in place, and say what changed."""
    widest = target.constraints.out_columns_max
    passes: list[Pass] = [] if widest is None else [SplitWideMatMul(int(widest))]
    notes: list[str] = []
    for one in [*passes, ConstantsAsInitializers()]:
        notes += one.apply(model, RewriteContext()).notes
    infer_types(model)
    return notes
