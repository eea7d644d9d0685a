"""How fast this machine multiplies matrices through ONNX Runtime, in float32 and in int8."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import onnxruntime

from chipwise.target.host.machine import Machine
from chipwise.target.host.timing import repeat
from chipwise.target.provenance import Provenance
from chipwise.target.quantity import Quantity

_PROBES = Path(__file__).parent / "probes"
_SIDE = 1024  # of the square matrices in the probe models (scripts/make_probe_models.py)


def matmul_throughput(machine: Machine, dtype: Literal["fp32", "int8"], today: str, budget_s: float = 0.4) -> Quantity:
    """Measure a 1024 x 1024 by 1024 x 1024 product on all usable cores; the right side is constant, as weights are.

    Raises:
        OSError: The probe models are not installed beside this file.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = machine.threads
    options.log_severity_level = 4
    model = (_PROBES / f"matmul_{dtype}.onnx").read_bytes()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    left = np.ones((_SIDE, _SIDE), dtype=np.float32 if dtype == "fp32" else np.uint8)
    timing = repeat(lambda: session.run(None, {"x": left}), budget_s)
    operator = "MatMul" if dtype == "fp32" else "MatMulInteger (uint8 x int8)"
    source = f"onnxruntime {onnxruntime.__version__} {operator}, {_SIDE}^3, {machine.threads} threads"
    return Quantity(2 * _SIDE**3 / timing.best_s, "op/s", Provenance("measured", source, today), timing.note())
