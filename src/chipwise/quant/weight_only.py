"""Weight-only quantization for CPUs: MatMul -> MatMulNBits, embedding -> GatherBlockQuantized.

Weights are read and quantized one at a time when the model is saved, so memory stays at one weight.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from chipwise.errors import InputError, RewriteError
from chipwise.model.scheme import StorageDtype, TensorScheme
from chipwise.quant.blockwise import BlockwiseWeight, quantize_blockwise
from chipwise.quant.gptq import quantize_gptq
from chipwise.quant.group_sums import GroupSums, with_rest
from chipwise.quant.recipe import Recipe
from chipwise.quant.stored_grid import GROUP_SIZE, keep_grid, kind_of_grid

MICROSOFT = "com.microsoft"
# Level 4 lets the kernel quantize activations to int8 a block at a time: the fastest on CPUs with int8 dot products.
ACCURACY_LEVEL = 4

Hessians = Callable[[str], npt.NDArray[np.float32] | None]
"""The Hessian of a weight's inputs by the weight's name, None where there is none."""
Hessian = Callable[[], npt.NDArray[np.float32] | None]


def quantize_weights(
    model: ir.Model,
    recipe: Recipe,
    *,
    hessians: Hessians | None = None,
    accuracy_level: int = ACCURACY_LEVEL,
    keep_grids: bool = False,
) -> dict[str, TensorScheme]:
    """Quantize every MatMul or Gemm with a constant weight, and the embedding, in place.

    Args:
        model: A graph whose weights are initializers, read lazily.
        recipe: Bits, group_size and symmetry. The embedding and the output layer have bits of their own; where they
            are one matrix it is stored twice if those differ: a lookup reads one row a token, a product all of them.
        hessians: Where the inputs' Hessians come from, for GPTQ; None rounds each weight on its own.
        accuracy_level: 4 for int8 activations inside the kernel, 1 for float32 ones.
        keep_grids: Whether 4-bit weights that already lie on a 4-bit grid of groups of 32 stay there (see
            ``stored_grid``), if the recipe's groups are of that size. The graph must be a decoder's: a MatMul's input
            is ``[batch, tokens, channels]``, a Gemm's ``[rows, channels]``.

    Returns:
        The scheme of each quantized weight by its name.

    Raises:
        InputError: The group that the user named does not divide a weight's input axis.
        RewriteError: No group of 16 or more does.
    """
    graph = model.graph
    graph.opset_imports[MICROSOFT] = 1
    quantizer = _Quantizer(graph, recipe, hessians, accuracy_level, keep_grids)
    for node in list(graph):
        quantizer.visit(node)
    RemoveUnusedNodesPass()(model)
    return quantizer.schemes


class _Quantizer:
    def __init__(
        self, graph: ir.Graph, recipe: Recipe, hessians: Hessians | None, accuracy_level: int, keep_grids: bool
    ) -> None:
        self.graph, self.recipe, self.accuracy_level = graph, recipe, accuracy_level
        self.hessians = hessians
        self.keep_grids = keep_grids and recipe.group_size == GROUP_SIZE
        self.sums = GroupSums(graph, GROUP_SIZE)
        self.schemes: dict[str, TensorScheme] = {}
        self._made: dict[tuple[str, int], _LazyBlockwise] = {}

    def visit(self, node: ir.Node) -> None:
        if node.op_type == "Gather" and _is_weight(node.inputs[0]) and self._is_embedding(node):
            self._embedding(node)
        elif node.op_type == "MatMul" and _is_weight(node.inputs[1]):
            self._linear(node, transposed=True, bits=self._bits(node))
        elif node.op_type == "Gemm" and _is_weight(node.inputs[1]) and _is_plain(node):
            transposed = node.attributes.get_int("transB", 0) == 0
            self._linear(node, transposed=transposed, bits=self._bits(node))

    def _bits(self, node: ir.Node) -> int:
        return self.recipe.head_bits if node.name == "lm_head" else self.recipe.weight_bits

    def _is_embedding(self, node: ir.Node) -> bool:
        value = node.inputs[0]
        return value is not None and (value.name or "").endswith("embed_tokens.weight")

    def _linear(self, node: ir.Node, *, transposed: bool, bits: int) -> None:
        logical = "lm_head.weight" if node.name == "lm_head" else None
        lazy = self._quantized(node.inputs[1], transposed=transposed, bits=bits, logical=logical, linear=True)
        x = node.inputs[0]
        if lazy.has_rest and x is not None:
            x = self.sums.appended(x, node, rank=2 if node.op_type == "Gemm" else 3)
        inputs = [x, lazy.packed, lazy.scales, lazy.zero_points]
        attributes = {
            "N": lazy.rows, "K": lazy.inputs, "bits": bits,
            "block_size": lazy.group_size, "accuracy_level": self.accuracy_level,
        }  # fmt: skip
        new = [ir.node("MatMulNBits", inputs, attributes, domain=MICROSOFT, name=node.name)]
        bias = node.inputs[2] if node.op_type == "Gemm" and len(node.inputs) > 2 else None
        if bias is not None:
            new.append(ir.node("Add", [new[0].outputs[0], bias]))
        self._replace(node, new)

    def _embedding(self, node: ir.Node) -> None:
        lazy = self._quantized(node.inputs[0], transposed=False, bits=self.recipe.embed_bits)
        attributes = {
            "bits": lazy.bits, "block_size": lazy.group_size, "gather_axis": 0, "quantize_axis": 1,
        }  # fmt: skip
        inputs = [lazy.flat(), node.inputs[1], lazy.scales, lazy.zero_points]
        self._replace(node, [ir.node("GatherBlockQuantized", inputs, attributes, domain=MICROSOFT, name=node.name)])

    def _quantized(
        self, value: ir.Value | None, *, transposed: bool, bits: int, logical: str | None = None, linear: bool = False
    ) -> _LazyBlockwise:
        """A weight at some bits, made once; ``logical`` is its name where one matrix plays two parts."""
        if value is None or value.const_value is None or value.name is None:
            raise RewriteError("a weight is no initializer")
        made = self._made.get((value.name, bits))
        if made is None:
            name = logical or value.name
            keep = self.keep_grids and linear and bits == 4
            hessian = self._hessian_of(value.name)
            made = _LazyBlockwise(self.graph, name, value.const_value, transposed, bits, self.recipe, hessian, keep)
            self._made[value.name, bits] = made
            self.schemes[name] = made.scheme
        return made

    def _hessian_of(self, weight: str) -> Hessian:
        return lambda: self.hessians(weight) if self.hessians else None

    def _replace(self, old: ir.Node, new: list[ir.Node]) -> None:
        """Put nodes in the place of one; the last gives its output."""
        before, after = old.outputs[0], new[-1].outputs[0]
        after.name, after.shape = before.name, before.shape
        if before.dtype is not None:
            after.dtype = before.dtype
        self.graph.insert_after(old, new)
        for index, output in enumerate(self.graph.outputs):
            if output is before:
                self.graph.outputs[index] = after
        before.replace_all_uses_with(after)
        self.graph.remove(old, safe=True)


class _LazyBlockwise:
    """A weight's packed values, scales and zero_points as initializers that are computed when they are saved.

    The parts are saved one after the other; the last result is kept, so the work is done once.
    """

    def __init__(
        self,
        graph: ir.Graph,
        name: str,
        tensor: ir.TensorProtocol,
        transposed: bool,
        bits: int,
        recipe: Recipe,
        hessian: Hessian,
        keep: bool,
    ) -> None:
        shape = tensor.shape.numpy()
        self.rows, self.columns = (shape[1], shape[0]) if transposed else (shape[0], shape[1])
        self.bits = bits
        self._tensor, self._transposed, self._hessian = tensor, transposed, hessian
        self._searched = recipe.algorithm != "absmax"
        grid = kind_of_grid(self._matrix()) if keep else None
        self.kept, self.has_rest = grid is not None, grid == "real"
        self.group_size = _fitting_group(self.columns, recipe, name)
        dtype: StorageDtype = "uint4" if bits == 4 else "uint8"
        symmetric = recipe.symmetric and not self.kept
        self.scheme = TensorScheme(bits, dtype, self.group_size, 0, symmetric, "float32", as_given=self.kept)
        self._graph, self._name = graph, name
        self._parts_left = 0
        self._last: BlockwiseWeight | None = None
        # What whole zero_points cannot hold of a grid is a column more for each group.
        self.inputs = self.columns + (self.columns // self.group_size if self.has_rest else 0)
        groups = -(-self.inputs // self.group_size)
        packed = (self.rows, groups, self.group_size * bits // 8)
        self.packed = self._initializer("packed", ir.DataType.UINT8, packed, lambda w: w.packed)
        self.scales = self._initializer("scales", ir.DataType.FLOAT, (self.rows, groups), lambda w: w.scales)
        self.zero_points: ir.Value | None = None
        if not symmetric:
            zeros = (self.rows, -(-groups * bits // 8))
            self.zero_points = self._initializer("zero_points", ir.DataType.UINT8, zeros, _zero_points)

    def flat(self) -> ir.Value:
        """The packed values as ``[rows, bytes a row]``, the shape that a gather of rows takes."""
        width = self.columns * self.bits // 8
        return self._initializer(
            "packed_rows", ir.DataType.UINT8, (self.rows, width), lambda w: w.packed.reshape(self.rows, width)
        )

    def _initializer(
        self,
        part: str,
        dtype: ir.DataType,
        shape: tuple[int, ...],
        pick: Callable[[BlockwiseWeight], npt.NDArray[np.generic]],
    ) -> ir.Value:
        name = f"{self._name}.{part}"
        self._parts_left += 1

        def read() -> ir.TensorProtocol:
            return ir.tensor(np.ascontiguousarray(pick(self._quantize())), name=name)

        lazy = ir.LazyTensor(read, dtype, ir.Shape(shape), name=name)
        value = ir.Value(name=name, shape=lazy.shape, type=ir.TensorType(dtype), const_value=lazy)
        self._graph.register_initializer(value)
        return value

    def _quantize(self) -> BlockwiseWeight:
        result = self._last
        if result is None:
            if self.kept:
                weight, rest = keep_grid(self._matrix())
                result = with_rest(weight, rest) if self.has_rest else weight
            else:
                # At 8 bits rounding loses next to nothing, and the embedding is no product.
                hessian = self._hessian() if self.bits < 8 else None
                result = _quantized(self._matrix(), hessian, self.scheme, searched=self._searched)
        self._parts_left -= 1
        self._last = result if self._parts_left > 0 else None
        return result

    def _matrix(self) -> npt.NDArray[np.float32]:
        """The weight ``[rows, columns]``, output channels first."""
        matrix = self._tensor.numpy()
        return matrix.T if self._transposed else matrix


def _quantized(
    matrix: npt.NDArray[np.float32], hessian: npt.NDArray[np.float32] | None, scheme: TensorScheme, *, searched: bool
) -> BlockwiseWeight:
    group_size = scheme.group_size or matrix.shape[1]
    if hessian is None:
        return quantize_blockwise(
            matrix, bits=scheme.bits, group_size=group_size, symmetric=scheme.symmetric, searched=searched
        )
    return quantize_gptq(matrix, hessian, bits=scheme.bits, group_size=group_size, symmetric=scheme.symmetric)


def _zero_points(weight: BlockwiseWeight) -> npt.NDArray[np.generic]:
    if weight.zero_points is None:
        raise RewriteError("an asymmetric weight came without zero_points")
    return weight.zero_points


def _fitting_group(columns: int, recipe: Recipe, name: str) -> int:
    """The largest group the kernel takes that divides the input axis and is no larger than the recipe's."""
    wanted = recipe.group_size
    if recipe.explicit and wanted is not None and columns % wanted:
        raise InputError(
            f"{columns} input channels are no multiple of the group of {wanted} in {recipe.name}", where=name,
            remedy=f"leave the group open ({recipe.scheme}), or take one that divides {columns}",
        )  # fmt: skip
    for group in (256, 128, 64, 32, 16):
        if group <= (wanted or 256) and columns % group == 0:
            return group
    raise RewriteError(f"{columns} input channels are no multiple of 16", where=name)


def _is_plain(gemm: ir.Node) -> bool:
    """Whether a Gemm is no more than a product and a bias."""
    factors = [gemm.attributes.get_float(name, 1.0) for name in ("alpha", "beta")]
    return factors == [1.0, 1.0] and gemm.attributes.get_int("transA", 0) == 0


def _is_weight(value: ir.Value | None) -> bool:
    return value is not None and value.is_initializer() and value.shape is not None and len(value.shape) == 2
