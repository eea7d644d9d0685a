"""Running one pass on a small graph, proven."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from chipwise.rewrite.pass_ import Feed, Pass, RewriteContext
from chipwise.rewrite.pipeline import RewriteResult, run_passes
from tests.check.graphs import graph


def rewritten(
    body: str | ir.Model,
    *passes: Pass,
    opset: int = 17,
    samples: tuple[Feed, ...] = (),
    dims: Mapping[str, int] | None = None,
) -> RewriteResult:
    model = graph(body, opset) if isinstance(body, str) else body
    return run_passes(model, passes, RewriteContext(samples=samples, dims=dims or {}))


def ops(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph if node.op_type != "Constant"]


def unchanged(body: str | ir.Model, one: Pass, *, opset: int = 17, **options: Any) -> tuple[str, ...]:
    """Run a pass that must find nothing to do; returns its notes."""
    result = rewritten(body, one, opset=opset, **options)
    (step,) = result.steps
    assert not step.modified
    assert not step.dropped
    assert result.total is None
    return step.notes


def attention_feed(mask: list[int], seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    feed: dict[str, np.ndarray[Any, Any]] = {
        name: rng.standard_normal((1, 2, 6, 8)).astype(np.float32) for name in "qkv"
    }
    feed["attention_mask"] = np.asarray([mask])
    return feed
