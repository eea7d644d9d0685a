"""A tiny decoder's graphs on disk, as reference and with damage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir

from chipwise.model.decoder import GraphSpec, build_decoder
from chipwise.model.model import Model
from chipwise.model.onnx_file_writer import save_graphs
from chipwise.rewrite.passes.ort_decoder import fuse_decoder
from chipwise.verify.attribution.phase import Text
from tests.quant.small_graphs import decoder

Graphs = dict[str, ir.Model]
CONTEXT = 32
TEXT = Text((5, 9, 4, 7, 33, 12), (8, 3, 21, 6))


def pair(folder: Path, model: Model, stem: str = "reference", edit: Callable[[Graphs], None] | None = None) -> Files:
    """Prefill and decode graphs of symbolic shapes."""
    graphs = {phase: decoder(model, GraphSpec(phase, CONTEXT)) for phase in ("prefill", "decode")}
    return _save(folder, graphs, stem, edit)


def fixed_pair(
    folder: Path, model: Model, stem: str = "reference", edit: Callable[[Graphs], None] | None = None
) -> Files:
    """The same of fixed shapes: prefill reads 8 tokens."""
    graphs = {
        "prefill": decoder(model, GraphSpec("prefill", CONTEXT, 1, 8, 8)),
        "decode": decoder(model, GraphSpec("decode", CONTEXT, 1, 1, 1)),
    }
    return _save(folder, graphs, stem, edit)


def fused(folder: Path, model: Model, stem: str = "reference", edit: Callable[[Graphs], None] | None = None) -> Files:
    """One graph of ONNX Runtime's operators."""
    assert model.config is not None
    graph = fuse_decoder(build_decoder(model.config, model.weights, GraphSpec("decode", CONTEXT)), model.config)
    return _save(folder, {"decoder": graph}, stem, edit)


Files = Mapping[str, Path]


def _save(folder: Path, graphs: Graphs, stem: str, edit: Callable[[Graphs], None] | None) -> Files:
    if edit is not None:
        edit(graphs)
    saved = save_graphs({f"{stem}.{role}": graph for role, graph in graphs.items()}, folder, f"{stem}.bin")
    return {role: saved[f"{stem}.{role}"].path for role in graphs}


def noisy(*parts: str, share: float = 0.3) -> Callable[[Graphs], None]:
    """Noise on the weights whose name holds one of some words."""

    def edit(graphs: Graphs) -> None:
        for graph in graphs.values():
            for name, value in graph.graph.initializers.items():
                if any(part in name for part in parts) and value.const_value is not None:
                    weight = value.const_value.numpy()
                    noise = np.random.default_rng(3).normal(0, share * weight.std(), weight.shape)
                    value.const_value = ir.tensor((weight + noise).astype(np.float32), name=name)

    return edit
