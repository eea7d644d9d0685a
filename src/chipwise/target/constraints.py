"""Constraints: what a chip and its runtime accept, as data for the check rules and the quantizer."""

from __future__ import annotations

from dataclasses import dataclass

from chipwise.target.alignment import Alignment
from chipwise.target.placement import Placement
from chipwise.target.quantity import Fact, Quantity
from chipwise.target.scheme_support import Granularity, SchemeSupport
from chipwise.target.units import check_fields


@dataclass(frozen=True)
class Constraints:
    """Limits of a target. A field that is None, and an empty tuple, mean "unknown", not "no limit".

    Attributes:
        schemes: The quantization schemes the runtimes take.
        activation_granularity: Granularity of the activations' scales.
        matmul_granularity: Granularity of both operands of a MatMul of two activations.
        per_channel_ops: Operators whose weights may have a scale a channel; all others one a tensor.
        fused_tails: Operators that the compiler fuses behind a product of constant weights: what is between them is
            never stored.
        placement: Where operators run; of two groups that name an operator the first counts.
        alignments: Sizes and addresses that must be multiples.
        opset_min: The lowest ONNX opset of the converter.
        opset_max: The highest.
        static_shapes: Whether every shape must be fixed when the model is built.
        control_flow: Whether If and Loop on data can be converted.
        explicit_epsilon: Whether LayerNormalization must carry its epsilon, although ONNX has a default.
        reshaped_attention: Whether queries and keys must come to an attention through a Reshape.
        scalar_borders: Whether inputs and outputs may have no dimensions.
        unused_outputs: Whether a node may have outputs that nobody reads, whatever it is and whichever they are.
        refused_resize_modes: Values of Resize's ``mode`` that end the build.
        refused_input_dtypes: ONNX types of graph inputs that end the build.
        context_max_tokens: The longest context of the runtime for language models.
        context_multiple_tokens: What a context length must be a multiple of.
        matmul_k_max: The longest inner dimension of a matrix product in one piece.
        out_columns_max: The most columns of an output layer that the accelerator hands out row by row.
        rank: The number of dimensions every tensor must have.
        rank_max: The most dimensions that every operator takes.
        batch_max: The largest first dimension.
        dim_min: The smallest other dimension.
        dim_max: The largest other dimension.
        partitions_max: Parts of a graph that may run on the accelerator; what follows runs on the CPU.
        loadables_max: Compiled graphs that can be loaded at once, a core.
        abs_weight_sum_max: The largest sum of absolute quantized weights of one output channel.
        softmax_area_max: The product of width and height of a Softmax input stays below this.
    """

    schemes: tuple[SchemeSupport, ...] = ()
    activation_granularity: Fact[Granularity] | None = None
    matmul_granularity: Fact[Granularity] | None = None
    per_channel_ops: Fact[tuple[str, ...]] | None = None
    fused_tails: Fact[tuple[str, ...]] | None = None
    placement: tuple[Placement, ...] = ()
    alignments: tuple[Alignment, ...] = ()
    opset_min: Quantity | None = None
    opset_max: Quantity | None = None
    static_shapes: Fact[bool] | None = None
    control_flow: Fact[bool] | None = None
    explicit_epsilon: Fact[bool] | None = None
    reshaped_attention: Fact[bool] | None = None
    scalar_borders: Fact[bool] | None = None
    unused_outputs: Fact[bool] | None = None
    refused_resize_modes: Fact[tuple[str, ...]] | None = None
    refused_input_dtypes: Fact[tuple[str, ...]] | None = None
    context_max_tokens: Quantity | None = None
    context_multiple_tokens: Quantity | None = None
    matmul_k_max: Quantity | None = None
    out_columns_max: Quantity | None = None
    rank: Quantity | None = None
    rank_max: Quantity | None = None
    batch_max: Quantity | None = None
    dim_min: Quantity | None = None
    dim_max: Quantity | None = None
    partitions_max: Quantity | None = None
    loadables_max: Quantity | None = None
    abs_weight_sum_max: Quantity | None = None
    softmax_area_max: Quantity | None = None

    def __post_init__(self) -> None:
        """Hold the units."""
        check_fields(self)

    def place(self, op_type: str) -> Placement | None:
        """Where an operator runs; None if no source says so."""
        named = (group for wanted in (op_type, "*") for group in self.placement if wanted in group.ops)
        return next(named, None)
