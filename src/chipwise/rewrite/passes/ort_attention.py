"""``chipwise.Attention`` as ONNX Runtime's ``GroupQueryAttention``, over a KV buffer that is read and written in place.

1. The operator has all of it: one packed projection goes in, rotary embedding and sliding window are attributes.
2. Norms of q and k (qwen3, gemma3): ``SimplifiedLayerNormalization`` over heads in front of it. The operator's own
   inputs for them are not there on CPUs (ONNX Runtime 1.32).
3. Rotary dimensions it does not take (no multiple of 16): ``RotaryEmbedding`` in front of it, at positions counted
   from ``seqlens_k``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from chipwise.errors import RewriteError
from chipwise.model.config import DecoderConfig
from chipwise.model.decoder import names
from chipwise.rewrite.passes.ort_edit import MICROSOFT, given, hand_over, merge

SEQLENS = "seqlens_k"
TOTAL = "total_sequence_length"

# What GroupQueryAttention's kernel for CPUs takes (ONNX Runtime 1.22 to 1.32).
_HEAD_MULTIPLE = 8
_ROTARY_MULTIPLE = 16


def fuse_attention(graph: ir.Graph, config: DecoderConfig) -> None:
    """Replace every call of ``chipwise.Attention``, and give the graph ``seqlens_k`` and ``total_sequence_length``.

    Raises:
        RewriteError: The heads are of a size the operator does not take.
    """
    if config.head_dim % _HEAD_MULTIPLE:
        raise RewriteError(
            f"heads of {config.head_dim} channels; GroupQueryAttention takes multiples of {_HEAD_MULTIPLE}",
            where=graph.name,
            remedy="keep the portable prefill and decode graphs",
        )
    _Fuser(graph, config).run()


@dataclass
class _Inputs:
    """What GroupQueryAttention reads as q, k, v (k and v None if packed in q) and as rotary tables."""

    q: ir.Value
    k: ir.Value | None = None
    v: ir.Value | None = None
    cos: ir.Value | None = None
    sin: ir.Value | None = None


class _Fuser:
    def __init__(self, graph: ir.Graph, config: DecoderConfig) -> None:
        self.graph, self.config = graph, config
        self.seqlens = ir.val(SEQLENS, dtype=ir.DataType.INT32, shape=["batch"])
        self.total = ir.val(TOTAL, dtype=ir.DataType.INT32, shape=[])
        self.positions: ir.Value | None = None

    def run(self) -> None:
        calls = [node for node in self.graph if (node.domain, node.op_type) == (names.DOMAIN, names.ATTENTION)]
        for layer, call in enumerate(calls):
            self._replace(layer, call)
        for value in self.graph.outputs[1:]:
            value.shape = ir.Shape(["batch", self.config.n_kv_heads, "context", self.config.head_dim])
        self.graph.inputs.extend([self.seqlens, self.total])

    def _replace(self, layer: int, call: ir.Node) -> None:
        config = self.config
        ready = self._prepare(layer, call)
        attributes: dict[str, int | float] = {
            "num_heads": config.n_heads,
            "kv_num_heads": config.n_kv_heads,
            "scale": config.score_scale,
            "do_rotary": int(ready.cos is not None),
        }
        if config.slides(layer) and config.sliding_window is not None:
            attributes["local_window_size"] = config.sliding_window
        inputs = [ready.q, ready.k, ready.v, call.inputs[6], call.inputs[7], self.seqlens, self.total]
        inputs += [ready.cos, ready.sin] if ready.cos is not None else []
        node = ir.node("GroupQueryAttention", inputs, attributes, domain=MICROSOFT, num_outputs=3, name=call.name)
        self.graph.insert_after(call, node)
        hand_over(self.graph, call, node)

    def _prepare(self, layer: int, call: ir.Node) -> _Inputs:
        config = self.config
        packed = merge(
            self.graph, [given(call.inputs[i]) for i in range(3)], call, names.weight(layer, "self_attn.qkv_proj")
        )
        cos, sin = (_table(call.inputs[i]) for i in (3, 4))
        rotates_itself = config.rope.dim % _ROTARY_MULTIPLE == 0
        if rotates_itself and not config.qk_norm:
            return _Inputs(packed, cos=cos, sin=sin)
        sizes = [heads * config.head_dim for heads in (config.n_heads, config.n_kv_heads, config.n_kv_heads)]
        split = ir.node("Split", [packed, self._ints("qkv_sizes", sizes)], {"axis": -1}, num_outputs=3)
        self.graph.insert_before(call, split)
        q, k, v = split.outputs
        if config.qk_norm:
            q = self._norm(call, q, call.inputs[8], config.n_heads)
            k = self._norm(call, k, call.inputs[9], config.n_kv_heads)
        if rotates_itself:
            return _Inputs(q, k, v, cos, sin)
        q = self._rotate(call, q, cos, sin, config.n_heads)
        k = self._rotate(call, k, cos, sin, config.n_kv_heads)
        return _Inputs(q, k, v)

    def _norm(self, call: ir.Node, x: ir.Value, weight: ir.Value | None, heads: int) -> ir.Value:
        """The RMS norm of each head of ``[b, s, heads * head_dim]``."""
        by_head = self._ints(f"shape_{heads}_heads", [0, 0, heads, self.config.head_dim])
        flat = self._ints(f"shape_{heads}_heads_flat", [0, 0, heads * self.config.head_dim])
        attributes = {"epsilon": self.config.norm_eps, "axis": -1, "stash_type": 1}
        apart = ir.node("Reshape", [x, by_head])
        norm = ir.node("SimplifiedLayerNormalization", [apart.outputs[0], weight], attributes)
        joined = ir.node("Reshape", [norm.outputs[0], flat])
        self.graph.insert_before(call, [apart, norm, joined])
        return joined.outputs[0]

    def _rotate(self, call: ir.Node, x: ir.Value, cos: ir.Value, sin: ir.Value, heads: int) -> ir.Value:
        attributes = {"num_heads": heads, "rotary_embedding_dim": self.config.rope.dim}
        inputs = [x, self._token_positions(call), cos, sin]
        node = ir.node("RotaryEmbedding", inputs, attributes, domain=MICROSOFT)
        self.graph.insert_before(call, node)
        return node.outputs[0]

    def _token_positions(self, call: ir.Node) -> ir.Value:
        """Positions int64 ``[b, s]``: the last new token of a row is at ``seqlens_k``, the others before it."""
        if self.positions is None:
            ids = next(value for value in self.graph.inputs if value.name == names.INPUT_IDS)
            one = self._ints("int_1", 1)
            axis_0, axis_1 = self._ints("axes_0", [0]), self._ints("axes_1", [1])
            last = ir.node("Unsqueeze", [self._add(call, "Cast", [self.seqlens], {"to": ir.DataType.INT64}), axis_1])
            self.graph.insert_before(call, last)
            shape = self._add(call, "Shape", [ids], {"start": 1, "end": 2})
            count = self._add(call, "Squeeze", [shape, axis_0])
            first = self._add(call, "Sub", [one, count])
            steps = self._add(call, "Range", [first, one, one])
            self.positions = self._add(call, "Add", [last.outputs[0], steps])
        return self.positions

    def _add(
        self, before: ir.Node, op: str, inputs: list[ir.Value], attributes: dict[str, int] | None = None
    ) -> ir.Value:
        node = ir.node(op, inputs, attributes or {})
        self.graph.insert_before(before, node)
        return node.outputs[0]

    def _ints(self, name: str, values: int | list[int]) -> ir.Value:
        if name not in self.graph.initializers:
            tensor = ir.tensor(np.asarray(values, np.int64), name=name)
            shape = ir.Shape(tensor.shape.numpy())
            value = ir.Value(name=name, shape=shape, type=ir.TensorType(tensor.dtype), const_value=tensor)
            self.graph.register_initializer(value)
        return self.graph.initializers[name]


def _table(value: ir.Value | None) -> ir.Value:
    """The rope table that ``Unsqueeze(Gather(table, positions))`` reads."""
    node = value.producer() if value is not None else None
    gather = node.inputs[0].producer() if node is not None and node.inputs[0] is not None else None
    table = gather.inputs[0] if gather is not None else None
    if table is None or not table.is_initializer():
        raise RewriteError("the rotary table is not where build_decoder puts it")
    return table
