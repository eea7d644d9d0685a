"""The highest ONNX opset the installed ONNX Runtime takes."""

from __future__ import annotations

import re
from pathlib import Path

import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph

from chipwise.target.provenance import Provenance
from chipwise.target.quantity import Quantity

_PROBE = Path(__file__).parent / "probes" / "opset_ceiling.onnx"
_LIMIT = re.compile(r"till opset (\d+)")


def opset_max(today: str) -> Quantity | None:
    """Ask ONNX Runtime by a model of an opset that does not exist: its refusal names the limit. None if it does not."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(_PROBE.read_bytes(), options, providers=["CPUExecutionProvider"])
    except (Fail, InvalidGraph) as e:
        match = _LIMIT.search(str(e))
    else:
        match = None
    if match is None:
        return None
    source = f"onnxruntime {onnxruntime.__version__}, its answer to a newer model"
    return Quantity(int(match[1]), "1", Provenance("measured", source, today))
