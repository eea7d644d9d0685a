"""GraphPen: what writers of ONNX graphs share: nodes, weights read when they are written, constants, activations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.tape import Tape

from chipwise.model.config import Activation
from chipwise.model.weights import WeightSource


class GraphPen:
    """Collects the nodes, initializers and inputs of a graph in the order they are asked for.

    Attributes:
        inputs: The graph's inputs so far.
    """

    def __init__(self, weights: WeightSource) -> None:
        self.inputs: list[ir.Value] = []
        self._weights = weights
        self._tape = Tape()
        self._known: dict[str, ir.Value] = {}

    def graph(self, outputs: Sequence[ir.Value], *, name: str, opset_imports: dict[str, int]) -> ir.Graph:
        """The graph of all that was written."""
        return ir.Graph(
            self.inputs,
            outputs,
            nodes=self._tape.nodes,
            initializers=self._tape.initializers,
            opset_imports=opset_imports,
            name=name,
        )

    def op(
        self,
        op_type: str,
        inputs: Sequence[ir.Value],
        attributes: Mapping[str, Any] | None = None,
        *,
        domain: str = "",
        name: str | None = None,
    ) -> ir.Value:
        """Add a node of one output."""
        return self._tape.op(op_type, inputs, attributes, domain=domain, name=name)

    def op_multi_out(
        self, op_type: str, inputs: Sequence[ir.Value], *, num_outputs: int, domain: str = "", name: str | None = None
    ) -> Sequence[ir.Value]:
        """Add a node of several outputs."""
        return self._tape.op_multi_out(op_type, inputs, domain=domain, num_outputs=num_outputs, name=name)

    def input(self, name: str, dtype: ir.DataType, *shape: int | str) -> ir.Value:
        """The graph input of this name, added when it is first asked for."""
        if name not in self._known:
            self._known[name] = ir.val(name, dtype=dtype, shape=shape)
            self.inputs.append(self._known[name])
        return self._known[name]

    def weight(self, name: str, *, transposed: bool = False) -> ir.Value:
        """A weight that is read when the model is saved; ``transposed`` gives MatMul's ``[in, out]``.

        Raises:
            ModelFormatError: The source has no such weight.
        """
        if name in self._known:
            return self._known[name]
        shape = self._weights.info(name).shape

        def read() -> ir.TensorProtocol:
            array: npt.NDArray[np.float32] = self._weights.load(name)
            return ir.tensor(array.T if transposed else array, name=name)

        tensor = ir.LazyTensor(read, ir.DataType.FLOAT, ir.Shape(shape[::-1] if transposed else shape), name=name)
        self._known[name] = self._tape.initializer(tensor, name)
        return self._known[name]

    def constant(self, name: str, value: npt.NDArray[np.generic] | np.float32) -> ir.Value:
        """A constant under a name that says what it is, the same one each time."""
        if name not in self._known:
            self._known[name] = self._tape.initializer(ir.tensor(np.asarray(value), name=name), name)
        return self._known[name]

    def linear(self, x: ir.Value, name: str, weight: str) -> ir.Value:
        """``x @ W.T + b`` with ``weight.weight`` and, if the source has it, ``weight.bias``; the MatMul gets a name."""
        y = self.op("MatMul", [x, self.weight(f"{weight}.weight", transposed=True)], name=name)
        bias = f"{weight}.bias"
        return self.op("Add", [y, self.weight(bias)]) if bias in self._weights else y

    def activation(self, x: ir.Value, kind: Activation) -> ir.Value:
        """An activation in elementwise operators, as chips without a GELU take it."""
        if kind == "silu":
            return self.op("Mul", [x, self.op("Sigmoid", [x])])
        half, one = self.constant("half", np.float32(0.5)), self.constant("one", np.float32(1))
        if kind == "gelu":
            inner = self.op("Erf", [self.op("Mul", [x, self.constant("rsqrt2", np.float32(0.5**0.5))])])
        else:
            # 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): Hendrycks & Gimpel, arXiv 1606.08415.
            cube = self.op("Mul", [self.op("Mul", [x, x]), x])
            bent = self.op("Mul", [cube, self.constant("gelu_cubic", np.float32(0.044715))])
            scale = self.constant("gelu_scale", np.float32((2 / np.pi) ** 0.5))
            inner = self.op("Tanh", [self.op("Mul", [self.op("Add", [x, bent]), scale])])
        return self.op("Mul", [self.op("Mul", [x, half]), self.op("Add", [inner, one])])
