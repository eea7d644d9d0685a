"""OnnxRuntimeEngine: opens a decoder's graphs with ONNX Runtime on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chipwise.engine.graph_session import GraphSession
from chipwise.engine.mask import Mask
from chipwise.engine.onnxruntime.decoder_graph import DecoderGraph
from chipwise.engine.onnxruntime.fused import FusedSession
from chipwise.engine.onnxruntime.graph import OnnxGraphSession
from chipwise.engine.portable import PortableSession
from chipwise.engine.session import Session
from chipwise.errors import EngineError


class OnnxRuntimeEngine:
    """ONNX Runtime's CPU provider.

    Options:
        threads: Threads of one step; 0 leaves it to ONNX Runtime (one a core).
        mask_value: The addend of masked scores in portable graphs; by default what the graph says.
        fuse_qdq: Whether ONNX Runtime may make integer operators of QuantizeLinear and DequantizeLinear; False for
            graphs that emulate a chip.
        yields: Whether threads let go of their cores after each step; True for sessions that take turns.
        sliding_window: Tokens a sliding layer looks back, for portable graphs that have such layers; by default
            what the graph says.
    """

    name = "onnxruntime"

    def open(self, files: Mapping[str, Path], *, n_slots: int, max_context: int, options: Mapping[str, Any]) -> Session:
        """Open ``decoder`` (one fused graph) or ``prefill`` and ``decode`` (portable graphs).

        Raises:
            EngineError: A role is missing, an option is malformed, or ONNX Runtime cannot load the graph.
        """
        if n_slots < 1 or max_context < 1:
            raise EngineError(f"{n_slots} slots of {max_context} tokens hold nothing", where=self.name)
        threads = int(_number(options, "threads") or 0)
        fuse_qdq = _flag(options, "fuse_qdq", default=True)
        yields = _flag(options, "yields", default=False)
        if "decoder" in files:
            return FusedSession(
                files["decoder"],
                n_slots=n_slots,
                max_context=max_context,
                threads=threads,
                fuse_qdq=fuse_qdq,
                yields=yields,
            )
        if {"prefill", "decode"} <= set(files):
            mask = _mask(options)
            prefill, decode = (
                DecoderGraph(files[role], threads=threads, fuse_qdq=fuse_qdq, yields=yields)
                for role in ("prefill", "decode")
            )
            return PortableSession(prefill, decode, n_slots=n_slots, max_context=max_context, mask=mask)
        raise EngineError(
            f"no decoder among the files {sorted(files)}",
            where=self.name,
            remedy="a bundle for this engine needs the role 'decoder', or 'prefill' and 'decode'",
        )

    def open_graph(self, path: Path, *, options: Mapping[str, Any]) -> GraphSession:
        """Open a plain graph.

        Raises:
            EngineError: An option is malformed, or ONNX Runtime cannot load the graph.
        """
        threads = int(_number(options, "threads") or 0)
        return OnnxGraphSession(path, threads=threads, fuse_qdq=_flag(options, "fuse_qdq", default=True))


def _mask(options: Mapping[str, Any]) -> Mask:
    window = _number(options, "sliding_window")
    return Mask(_number(options, "mask_value"), None if window is None else int(window))


def _flag(options: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = options.get(name, default)
    if not isinstance(value, bool):
        raise EngineError(f"the option {name} is {value!r}, not true or false", where=OnnxRuntimeEngine.name)
    return value


def _number(options: Mapping[str, Any], name: str) -> int | float | None:
    value = options.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise EngineError(f"the option {name} is {value!r}, not a number", where=OnnxRuntimeEngine.name)
    return value
