"""OnnxRuntimeEngine: opens a decoder's graphs with ONNX Runtime on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chipwise.engine.onnxruntime.fused import FusedSession
from chipwise.engine.onnxruntime.portable import PortableSession
from chipwise.engine.session import Session
from chipwise.errors import EngineError


class OnnxRuntimeEngine:
    """ONNX Runtime's CPU provider.

    Options:
        threads: Threads of one step; 0 leaves it to ONNX Runtime (one a core).
        mask_value: The addend of masked scores in portable graphs.
        sliding_window: Tokens a sliding layer looks back, for portable graphs that have such layers.
    """

    name = "onnxruntime"

    def open(self, files: Mapping[str, Path], *, n_slots: int, max_context: int, options: Mapping[str, Any]) -> Session:
        """Open ``decoder`` (one fused graph) or ``prefill`` and ``decode`` (portable graphs).

        Raises:
            EngineError: A role is missing, or ONNX Runtime cannot load the graph.
        """
        threads = int(options.get("threads", 0))
        if "decoder" in files:
            return FusedSession(files["decoder"], n_slots=n_slots, max_context=max_context, threads=threads)
        if {"prefill", "decode"} <= set(files):
            return PortableSession(
                files["prefill"],
                files["decode"],
                n_slots=n_slots,
                max_context=max_context,
                threads=threads,
                mask_value=float(options["mask_value"]),
                sliding_window=options.get("sliding_window"),
            )
        raise EngineError(
            f"no decoder among the files {sorted(files)}",
            where=self.name,
            remedy="a bundle for this engine needs the role 'decoder', or 'prefill' and 'decode'",
        )
