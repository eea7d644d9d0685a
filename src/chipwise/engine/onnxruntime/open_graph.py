"""Opening a graph with ONNX Runtime, with settings that keep memory small and errors ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnxruntime as ort

from chipwise.background import considerately
from chipwise.errors import EngineError

# ONNX Runtime repeats on stderr what it raises: only what it does not raise may show.
_FATAL_ONLY = 4


def open_graph(
    path: Path, *, threads: int = 0, optimize: bool = True, fuse_qdq: bool = True, yields: bool = False
) -> ort.InferenceSession:
    """Load a graph on the CPU.

    Args:
        path: The ONNX file.
        threads: Threads of one run; 0 for one a core.
        optimize: Whether ONNX Runtime may rewrite the graph.
        fuse_qdq: Whether it may put integer operators in the place of QuantizeLinear and DequantizeLinear. A graph
            that emulates a chip must run as it is written: pairs that ONNX Runtime merges or moves round elsewhere.
        yields: Whether threads let go of their cores when a run ends. They wait for the next one in a loop otherwise,
            which costs another session that takes turns with this one a quarter of its speed.

    Raises:
        EngineError: ONNX Runtime refuses the graph.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _FATAL_ONLY
    if yields:
        options.add_session_config_entry("session.force_spinning_stop", "1")
    if not fuse_qdq:
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return considerately(
            lambda: ort.InferenceSession(
                str(path),
                options,
                providers=["CPUExecutionProvider"],
                # The setting above leaves this one on, and it changes values.
                disabled_optimizers=None if fuse_qdq else ["DoubleQDQPairsRemover"],
            )
        )
    except Exception as e:  # onnxruntime raises many types without a common base
        raise EngineError(
            f"ONNX Runtime {ort.__version__} cannot load the graph ({first_line(e)})",
            where=str(path),
            remedy="build the bundle again, or install the onnxruntime version it was built with",
        ) from e


@contextmanager
def stepping() -> Iterator[None]:
    """Turn whatever ONNX Runtime raises in a step into one EngineError.

    Raises:
        EngineError: The step failed.
    """
    try:
        yield
    except EngineError:
        raise
    except Exception as e:  # onnxruntime raises many types without a common base
        raise EngineError(f"a step failed ({first_line(e)})", where="onnxruntime") from e


def first_line(error: Exception) -> str:
    """The part of a runtime's message that says what is wrong."""
    return str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
