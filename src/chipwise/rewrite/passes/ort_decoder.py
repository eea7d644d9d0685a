"""ONNX Runtime's fused operators in a decoder that chipwise wrote, for CPU targets.

The decode graph becomes one graph for both phases: GroupQueryAttention reads its position from ``seqlens_k`` and
takes any number of new tokens, so prefill and decode share one session and one copy of the weights.

1. ``chipwise.Attention`` -> ``com.microsoft.GroupQueryAttention`` with rotary embedding and sliding window inside
   (``ort_attention.py`` has the exceptions), over a KV buffer that is read and written in place.
2. q, k and v projections -> one MatMul; gate and up projections -> one MatMul and a Split.
3. Add + ``chipwise.RmsNorm`` -> ``SkipSimplifiedLayerNormalization``; the first norm stands alone as
   ``SimplifiedLayerNormalization``.
4. x * Sigmoid(x) -> ``QuickGelu`` with alpha 1.
"""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedFunctionsPass, RemoveUnusedNodesPass

from chipwise.errors import RewriteError
from chipwise.model.config import DecoderConfig
from chipwise.model.decoder import names
from chipwise.rewrite.passes.ort_attention import fuse_attention
from chipwise.rewrite.passes.ort_edit import MICROSOFT, given, hand_over, merge


def fuse_decoder(model: ir.Model, config: DecoderConfig) -> ir.Model:
    """Put ONNX Runtime's operators in place of the functions of a dynamic decode graph, in place.

    New inputs: ``seqlens_k`` int32 ``[b]`` (tokens in the cache after this step, less one) and
    ``total_sequence_length`` int32 (the largest of them, plus one). Gone: positions and attention_bias.

    Raises:
        RewriteError: The graph is not a dynamic decode graph of ``build_decoder``, or its heads are of a size that
            GroupQueryAttention does not take.
    """
    graph = model.graph
    inputs = {value.name: value for value in graph.inputs}
    if names.past(0, "key") not in inputs:
        raise RewriteError("not a decode graph: it has no KV cache", where=graph.name)
    shape = inputs[names.INPUT_IDS].shape
    if shape is None or shape.is_static():
        raise RewriteError("the shapes are fixed; a graph for both phases needs symbolic ones", where=graph.name)
    graph.opset_imports[MICROSOFT] = 1
    fuse_attention(graph, config)
    model.metadata_props["chipwise.heads"] = str(config.n_heads)
    if any(config.sliding_layers):
        # Before 1.24, GroupQueryAttention's window did not count the token itself (measured: 1.22.1 and 1.23.2 differ
        # from 1.24.1 and 1.32.0, which agree with the config's meaning).
        model.metadata_props["chipwise.min_onnxruntime"] = "1.24"
    _merge_gate_and_up(graph, config)
    _fuse_norms(graph)
    _fuse_silu(graph)
    _drop_unused(model)
    return model


def _merge_gate_and_up(graph: ir.Graph, config: DecoderConfig) -> None:
    for layer in range(config.n_layers):
        wanted = {f"layers.{layer}.mlp.gate_proj", f"layers.{layer}.mlp.up_proj"}
        gate_up = [node.outputs[0] for node in graph if node.name in wanted]
        if len(gate_up) != 2:
            raise RewriteError("gate and up projections not found", where=f"layer {layer}")
        anchor = given(gate_up[1]).producer()
        if anchor is None:
            raise RewriteError("the up projection has no node", where=f"layer {layer}")
        merged = merge(graph, gate_up, anchor, names.weight(layer, "mlp.gate_up_proj"), after=True)
        split = ir.node("Split", [merged], {"axis": -1}, num_outputs=2, name=f"layers.{layer}.mlp.split")
        split_after = merged.producer()
        if split_after is None:
            raise RewriteError("the merged projection has no node", where=f"layer {layer}")
        graph.insert_after(split_after, split)
        for old, new in zip(gate_up, split.outputs, strict=True):
            old.replace_all_uses_with(new)


def _fuse_norms(graph: ir.Graph) -> None:
    for call in [n for n in graph if (n.domain, n.op_type) == (names.DOMAIN, names.RMS_NORM)]:
        x, weight = given(call.inputs[0]), given(call.inputs[1])
        epsilon = call.attributes.get_float("epsilon")
        add = x.producer()
        if add is not None and add.op_type == "Add" and not add.domain and not given(add.inputs[1]).is_initializer():
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
        x, sigmoid = mul.inputs[0], given(mul.inputs[1]).producer()
        if sigmoid is None or sigmoid.op_type != "Sigmoid" or sigmoid.inputs[0] is not x:
            continue
        node = ir.node("QuickGelu", [x], {"alpha": 1.0}, domain=MICROSOFT, name=mul.name)
        graph.insert_after(mul, node)
        hand_over(graph, mul, node)


def _drop_unused(model: ir.Model) -> None:
    for tidy in (RemoveUnusedNodesPass(), RemoveUnusedFunctionsPass()):  # type: ignore[no-untyped-call]
        tidy(model)
    unused = (names.POSITIONS, names.ATTENTION_BIAS, names.ATTENTION_BIAS_LOCAL)
    for value in [v for v in model.graph.inputs if v.name in unused]:
        model.graph.inputs.remove(value)
    model.graph.opset_imports.pop(names.DOMAIN, None)
