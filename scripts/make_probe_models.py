"""Write the tiny ONNX models that `chipwise.target.host` measures a machine with.

They are shipped because a device has no `onnx` package. Run it again only to change them:
`python scripts/make_probe_models.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(__file__).parents[1] / "src/chipwise/target/host/probes"
SIDE = 1024  # as in chipwise.target.host.matmul


def matmul(operator: str, left: int, weight: np.ndarray, out: int) -> onnx.ModelProto:
    """A product whose right side is folded to a constant at load, so that it is packed as weights are."""
    shape = numpy_helper.from_array(np.array([SIDE, SIDE], dtype=np.int64), "shape")
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["w"], value=numpy_helper.from_array(weight)),
        helper.make_node(operator, ["x", "w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        operator.lower(),
        [helper.make_tensor_value_info("x", left, [SIDE, SIDE])],
        [helper.make_tensor_value_info("y", out, [SIDE, SIDE])],
        [shape],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])


def opset_ceiling() -> onnx.ModelProto:
    """An Identity of an opset that does not exist, for a runtime to refuse and name the highest it takes."""
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "opset_ceiling",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 1000)])


def models() -> dict[str, onnx.ModelProto]:
    """All probe models by file name."""
    return {
        "matmul_fp32.onnx": matmul("MatMul", TensorProto.FLOAT, np.array([0.5], dtype=np.float32), TensorProto.FLOAT),
        "matmul_int8.onnx": matmul("MatMulInteger", TensorProto.UINT8, np.array([3], dtype=np.int8), TensorProto.INT32),
        "opset_ceiling.onnx": opset_ceiling(),
    }


def main() -> int:
    """Write the models."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, model in models().items():
        onnx.save(model, FOLDER / name)
        print(FOLDER / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
