"""ONNX Runtime's fused operators in a decoder that chipwise wrote, for CPU targets.

The decode graph becomes one graph for both phases: GroupQueryAttention reads its position from ``seqlens_k`` and
takes any number of new tokens, so prefill and decode share one session and one copy of the weights.

1. ``chipwise.Attention`` -> ``com.microsoft.GroupQueryAttention`` with rotary embedding, norms of q and k and the
   sliding window inside, over a KV buffer that is read and written in place.
2. q, k and v projections -> one MatMul; gate and up projections -> one MatMul and a Split.
3. Add + ``chipwise.RmsNorm`` -> ``SkipSimplifiedLayerNormalization``; the first norm stands alone as
   ``SimplifiedLayerNormalization``.
4. x * Sigmoid(x) -> ``QuickGelu`` with alpha 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedFunctionsPass, RemoveUnusedNodesPass

from chipwise.errors import RewriteError
from chipwise.model.config import DecoderConfig
from chipwise.model.decoder import names

MICROSOFT = "com.microsoft"
SEQLENS = "seqlens_k"
TOTAL = "total_sequence_length"


def fuse_decoder(model: ir.Model, config: DecoderConfig) -> ir.Model:
    """Put ONNX Runtime's operators in place of the functions of a dynamic decode graph, in place.

    New inputs: ``seqlens_k`` int32 ``[b]`` (tokens in the cache after this step, less one) and
    ``total_sequence_length`` int32 (the largest of them, plus one). Gone: positions and attention_bias.

    Raises:
        RewriteError: The graph is not a dynamic decode graph of ``build_decoder``.
    """
    graph = model.graph
    if not any(value.name == names.past(0, "key") for value in graph.inputs):
        raise RewriteError("not a decode graph: it has no KV cache", where=graph.name)
    graph.opset_imports[MICROSOFT] = 1
    _fuse_attention(graph, config)
    _merge_gate_and_up(graph, config)
    _fuse_norms(graph)
    _fuse_silu(graph)
    _drop_unused(model)
    return model


def _fuse_attention(graph: ir.Graph, config: DecoderConfig) -> None:
    seqlens = ir.val(SEQLENS, dtype=ir.DataType.INT32, shape=["batch"])
    total = ir.val(TOTAL, dtype=ir.DataType.INT32, shape=[])
    calls = [node for node in graph if (node.domain, node.op_type) == (names.DOMAIN, names.ATTENTION)]
    for layer, call in enumerate(calls):
        cos, sin = (_table(call.inputs[i]) for i in (3, 4))
        attributes: dict[str, int | float] = {
            "num_heads": config.n_heads,
            "kv_num_heads": config.n_kv_heads,
            "scale": config.score_scale,
            "do_rotary": 1,
        }
        if config.slides(layer) and config.sliding_window is not None:
            attributes["local_window_size"] = config.sliding_window
        packed = _merge_qkv(graph, call, layer)
        tail: list[ir.Value | None] = []
        if config.qk_norm:
            attributes["qk_norm_epsilon"] = config.norm_eps
            tail = [None, None, None, None, None, call.inputs[8], call.inputs[9]]
        inputs: list[ir.Value | None] = [
            packed,
            None,
            None,
            call.inputs[6],
            call.inputs[7],
            seqlens,
            total,
            cos,
            sin,
            *tail,
        ]
        node = ir.node("GroupQueryAttention", inputs, attributes, domain=MICROSOFT, num_outputs=3, name=call.name)
        graph.insert_after(call, node)
        _replace(graph, call, node)
    for index, value in enumerate(graph.outputs):
        if index:
            value.shape = ir.Shape(["batch", config.n_kv_heads, "context", config.head_dim])
    graph.inputs.extend([seqlens, total])


def _table(value: ir.Value | None) -> ir.Value:
    """The rope table that ``Unsqueeze(Gather(table, positions))`` reads."""
    node = value.producer() if value is not None else None
    gather = node.inputs[0].producer() if node is not None and node.inputs[0] is not None else None
    table = gather.inputs[0] if gather is not None else None
    if table is None or not table.is_initializer():
        raise RewriteError("the rotary table is not where build_decoder puts it")
    return table


def _merge_qkv(graph: ir.Graph, call: ir.Node, layer: int) -> ir.Value:
    """One projection for q, k and v, whose output GroupQueryAttention takes as it is."""
    return _merge(graph, [_given(call.inputs[i]) for i in range(3)], call, names.weight(layer, "self_attn.qkv_proj"))


def _merge_gate_and_up(graph: ir.Graph, config: DecoderConfig) -> None:
    for layer in range(config.n_layers):
        wanted = {f"layers.{layer}.mlp.gate_proj", f"layers.{layer}.mlp.up_proj"}
        gate_up = [node.outputs[0] for node in graph if node.name in wanted]
        if len(gate_up) != 2:
            raise RewriteError("gate and up projections not found", where=f"layer {layer}")
        anchor = _given(gate_up[1]).producer()
        if anchor is None:
            raise RewriteError("the up projection has no node", where=f"layer {layer}")
        merged = _merge(graph, gate_up, anchor, names.weight(layer, "mlp.gate_up_proj"), after=True)
        split = ir.node("Split", [merged], {"axis": -1}, num_outputs=2, name=f"layers.{layer}.mlp.split")
        split_after = merged.producer()
        if split_after is None:
            raise RewriteError("the merged projection has no node", where=f"layer {layer}")
        graph.insert_after(split_after, split)
        for old, new in zip(gate_up, split.outputs, strict=True):
            old.replace_all_uses_with(new)


def _merge(
    graph: ir.Graph, outputs: Sequence[ir.Value], anchor: ir.Node, name: str, *, after: bool = False
) -> ir.Value:
    """One MatMul (and bias) for several of the same input, their outputs side by side."""
    matmuls, biases = [], []
    for output in outputs:
        node = output.producer()
        if node is not None and node.op_type == "Add":
            biases.append(_constant(node.inputs[1]))
            node = _given(node.inputs[0]).producer()
        if node is None or node.op_type != "MatMul":
            raise RewriteError("a projection is no MatMul", where=name)
        matmuls.append(node)
    weights = [_constant(node.inputs[1]) for node in matmuls]
    merged = ir.node("MatMul", [matmuls[0].inputs[0], _side_by_side(graph, weights, f"{name}.weight")], name=name)
    nodes = [merged]
    if biases:
        bias = _side_by_side(graph, biases, f"{name}.bias")
        nodes.append(ir.node("Add", [merged.outputs[0], bias], name=f"{name}.bias"))
    (graph.insert_after if after else graph.insert_before)(anchor, nodes)
    return nodes[-1].outputs[0]


def _side_by_side(graph: ir.Graph, tensors: Sequence[ir.TensorProtocol], name: str) -> ir.Value:
    """An initializer of several along the last axis, read when it is written."""
    *front, _ = tensors[0].shape.numpy()
    width = sum(tensor.shape.numpy()[-1] for tensor in tensors)

    def read() -> ir.TensorProtocol:
        # The weights are transposed views of [out, in]: joining them as rows copies each once.
        rows = np.concatenate([tensor.numpy().T for tensor in tensors], axis=0)
        return ir.tensor(rows.T, name=name)

    lazy = ir.LazyTensor(read, ir.DataType.FLOAT, ir.Shape([*front, width]), name=name)
    value = ir.Value(name=name, shape=lazy.shape, type=ir.TensorType(ir.DataType.FLOAT), const_value=lazy)
    graph.register_initializer(value)
    return value


def _fuse_norms(graph: ir.Graph) -> None:
    for call in [n for n in graph if (n.domain, n.op_type) == (names.DOMAIN, names.RMS_NORM)]:
        x, weight = _given(call.inputs[0]), _given(call.inputs[1])
        epsilon = call.attributes.get_float("epsilon")
        add = x.producer()
        if add is not None and add.op_type == "Add" and not add.domain and not _given(add.inputs[1]).is_initializer():
            node = ir.node(
                "SkipSimplifiedLayerNormalization", [*add.inputs, weight], {"epsilon": epsilon},
                domain=MICROSOFT, num_outputs=4, name=call.name,
            )  # fmt: skip
            total, name = node.outputs[3], x.name
            graph.insert_after(call, node)
            x.replace_all_uses_with(total)
            graph.remove(add, safe=True)
            total.name = name
        else:
            attributes = {"epsilon": epsilon, "axis": -1, "stash_type": 1}
            node = ir.node("SimplifiedLayerNormalization", [x, weight], attributes, name=call.name)
            graph.insert_after(call, node)
        name = call.outputs[0].name
        call.outputs[0].replace_all_uses_with(node.outputs[0])
        graph.remove(call, safe=True)
        node.outputs[0].name = name


def _fuse_silu(graph: ir.Graph) -> None:
    for mul in [n for n in graph if n.op_type == "Mul" and not n.domain]:
        x, sigmoid = mul.inputs[0], _given(mul.inputs[1]).producer()
        if sigmoid is None or sigmoid.op_type != "Sigmoid" or sigmoid.inputs[0] is not x:
            continue
        node = ir.node("QuickGelu", [x], {"alpha": 1.0}, domain=MICROSOFT, name=mul.name)
        graph.insert_after(mul, node)
        _replace(graph, mul, node)


def _replace(graph: ir.Graph, old: ir.Node, new: ir.Node) -> None:
    """Hand an old node's outputs, names and shapes over to a new one."""
    for before, after in zip(old.outputs, new.outputs, strict=True):
        after.name, after.shape = before.name, before.shape
        if before.dtype is not None:
            after.dtype = before.dtype
        for index, output in enumerate(graph.outputs):
            if output is before:
                graph.outputs[index] = after
        before.replace_all_uses_with(after)
    graph.remove(old, safe=True)


def _drop_unused(model: ir.Model) -> None:
    for tidy in (RemoveUnusedNodesPass(), RemoveUnusedFunctionsPass()):  # type: ignore[no-untyped-call]
        tidy(model)
    unused = (names.POSITIONS, names.ATTENTION_BIAS, names.ATTENTION_BIAS_LOCAL)
    for value in [v for v in model.graph.inputs if v.name in unused]:
        model.graph.inputs.remove(value)
    model.graph.opset_imports.pop(names.DOMAIN, None)


def _given(value: ir.Value | None) -> ir.Value:
    if value is None:
        raise RewriteError("an input that build_decoder always gives is missing")
    return value


def _constant(value: ir.Value | None) -> ir.TensorProtocol:
    tensor = _given(value).const_value
    if tensor is None:
        raise RewriteError("a weight is no initializer", where=_given(value).name)
    return tensor
