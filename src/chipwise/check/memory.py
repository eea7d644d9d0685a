"""Memory: what a model takes of it, in parts."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from chipwise.check.check_input import CheckInput
from chipwise.check.linears import linears
from chipwise.check.recipe_name import RecipeName
from chipwise.check.symbolic import dim_size
from chipwise.model.config import DecoderConfig, EncoderConfig

# Prompts are read in pieces of at most this many tokens.
PREFILL_TOKENS = 512
# Embedding and output layer keep at least 8 bits: at 4 they cost more words than they save bytes.
_TABLE_BITS = 8


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes of the parts.

    Attributes:
        weights_bytes: Weights as the recipe stores them; as the file stores them without a recipe.
        kv_bytes: The KV cache of all streams at the whole context.
        activations_bytes: The most activations alive at once; a lower bound where shapes are unknown.
    """

    weights_bytes: int
    kv_bytes: int
    activations_bytes: int

    @property
    def total_bytes(self) -> int:
        """The sum."""
        return self.weights_bytes + self.kv_bytes + self.activations_bytes


def memory_need(given: CheckInput) -> MemoryNeed:
    """What a model takes on a target, with its recipe, context and streams.

    KV values and activations have 4 bytes under ONNX Runtime, 2 elsewhere, and activations 1 where they are int8.
    """
    float_bytes = 4 if given.target.engine == "onnxruntime" else 2
    integer = given.recipe is not None and given.recipe.integer_activations
    activation_bytes = 1 if integer else float_bytes
    if given.graph is not None:
        return MemoryNeed(_stored(given.graph, given.recipe), 0, _peak(given, activation_bytes))
    config = given.config
    if isinstance(config, DecoderConfig):
        kv = config.kv_bytes(given.context, float_bytes) * given.n_streams
        return MemoryNeed(_weights(given, config), kv, _decoder_peak(config, given.context, activation_bytes))
    if isinstance(config, EncoderConfig):
        tokens = given.context * given.n_streams
        peak = tokens * (4 * config.hidden_size + config.ffn_size) + config.n_heads * given.context * tokens
        return MemoryNeed(_weights(given, config), 0, peak * activation_bytes)
    return MemoryNeed(0, 0, 0)


def _weights(given: CheckInput, config: DecoderConfig | EncoderConfig) -> int:
    source = given.model.weights
    if given.recipe is None and source is not None:
        return sum(source.info(name).nbytes for name in source.names())
    bits = 32.0 if given.recipe is None else given.recipe.weight_scheme().bits_per_value
    table_bits = max(_TABLE_BITS, bits)
    body = sum(one.values * one.count for one in linears(given) if not one.is_head)
    tables = config.vocab_size * config.hidden_size
    if isinstance(config, EncoderConfig):
        tables += (config.max_positions + config.type_vocab_size) * config.hidden_size
    elif not config.tied_embeddings:
        tables *= 2
    return int((body * bits + tables * table_bits) / 8)


def _decoder_peak(config: DecoderConfig, context: int, nbytes: int) -> int:
    """The widest point of a layer: residual, normed input, gate and up, or q, k, v and one layer's scores."""
    tokens = min(context, PREFILL_TOKENS)
    feed_forward = tokens * (2 * config.hidden_size + 2 * config.ffn_size)
    attention = tokens * (2 * config.hidden_size + config.n_heads * (config.head_dim + context))
    return max(feed_forward, attention) * nbytes + config.vocab_size * 4


def _stored(model: ir.Model, recipe: RecipeName | None) -> int:
    """Bytes of the initializers; matrices in floating point count as the recipe stores them."""
    bits = None if recipe is None else recipe.weight_scheme().bits_per_value
    total = 0.0
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if tensor is None:
            continue
        matrix = len(tensor.shape) >= 2 and tensor.dtype.is_floating_point()
        total += tensor.size * bits / 8 if bits is not None and matrix else tensor.nbytes
    return int(total)


def _peak(given: CheckInput, float_bytes: int) -> int:
    """The most bytes of computed values alive at once, when nodes run in the order they are listed."""
    if given.graph is None:
        return 0
    left = set(given.nodes)
    nodes = [node for node in given.graph.graph if node in left]
    last = {value: step for step, node in enumerate(nodes) for value in node.inputs if value is not None}
    alive = peak = 0
    ends: dict[int, int] = {}
    for step, node in enumerate(nodes):
        for value in node.outputs:
            size = _size(value, given, float_bytes)
            alive += size
            end = len(nodes) if value.is_graph_output() else last.get(value, step)
            ends[end] = ends.get(end, 0) + size
        peak = max(peak, alive)
        alive -= ends.pop(step, 0)
    return peak


def _size(value: ir.Value, given: CheckInput, float_bytes: int) -> int:
    if value.shape is None or value.dtype is None or value.dtype == ir.DataType.STRING:
        return 0
    count = 1
    for dim in value.shape:
        count *= dim_size(dim, given.dims) or 1
    nbytes = float_bytes if value.dtype.is_floating_point() else max(1, value.dtype.bitwidth // 8)
    return count * nbytes
