"""The two ONNX functions a decoder is made of, with bodies in standard operators (opset 17).

A graph calls ``chipwise.RmsNorm`` and ``chipwise.Attention``. Any runtime that knows ONNX functions runs it as it
is; inlining gives plain operators for vendor compilers; a pass for CPUs puts ONNX Runtime's fused operators in
their place without having to find them in a sea of small nodes.
"""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.tape import Tape

from chipwise.model.config import DecoderConfig
from chipwise.model.decoder.names import ATTENTION, DOMAIN, RMS_NORM

OPSET = 17


def rms_norm_function(epsilon: float) -> ir.Function:
    """``y = x / sqrt(mean(x^2) + epsilon) * weight`` over the last axis (Zhang & Sennrich, arXiv 1910.07467).

    Inputs: x ``[..., n]``, weight ``[n]``. The epsilon is explicit in the body and repeated as an attribute for
    passes that replace the call.
    """
    x, weight = ir.val("x"), ir.val("weight")
    tape = Tape()
    y = _rms_norm(tape, x, weight, epsilon)
    y.name = "y"
    return _function(RMS_NORM, [x, weight], [y], tape, {"epsilon": epsilon})


def attention_function(config: DecoderConfig, *, has_past: bool) -> ir.Function:
    """Rotary attention with grouped key and value heads, over a KV cache if there is one.

    Inputs: q ``[b, s, heads * head_dim]``, k and v ``[b, s, kv_heads * head_dim]``, cos and sin
    ``[b, 1, s, rope_dim / 2]``, bias ``[b, 1, s, t]``, then past_key and past_value ``[b, kv_heads, p, head_dim]`` if
    ``has_past``, then the weights of q's and k's norm if the model has them. t is p + s.

    Outputs: ``[b, s, heads * head_dim]``, and the new keys and values ``[b, kv_heads, s, head_dim]``.
    """
    names = ["q", "k", "v", "cos", "sin", "bias"]
    names += ["past_key", "past_value"] if has_past else []
    names += ["q_norm", "k_norm"] if config.qk_norm else []
    values = {name: ir.val(name) for name in names}
    tape = Tape()
    q = _heads(tape, values["q"], config.n_heads, config.head_dim)
    k = _heads(tape, values["k"], config.n_kv_heads, config.head_dim)
    v = tape.op("Transpose", [_heads(tape, values["v"], config.n_kv_heads, config.head_dim)], {"perm": [0, 2, 1, 3]})
    if config.qk_norm:
        q = _rms_norm(tape, q, values["q_norm"], config.norm_eps)
        k = _rms_norm(tape, k, values["k_norm"], config.norm_eps)
    q, k = (tape.op("Transpose", [x], {"perm": [0, 2, 1, 3]}) for x in (q, k))
    q, k = (_rotate(tape, x, values["cos"], values["sin"], config) for x in (q, k))
    keys, all_values = k, v
    if has_past:
        keys = tape.op("Concat", [values["past_key"], k], {"axis": 2})
        all_values = tape.op("Concat", [values["past_value"], v], {"axis": 2})
    # Scaling q rather than the scores keeps float16 products away from its largest value.
    q = tape.op("Mul", [q, _scalar(tape, config.score_scale)])
    keys_t = tape.op("Transpose", [_repeat_heads(tape, keys, config)], {"perm": [0, 1, 3, 2]})
    scores = tape.op("Add", [tape.op("MatMul", [q, keys_t]), values["bias"]])
    weights = tape.op("Softmax", [scores], {"axis": -1})
    mixed = tape.op("MatMul", [weights, _repeat_heads(tape, all_values, config)])
    mixed = tape.op("Transpose", [mixed], {"perm": [0, 2, 1, 3]})
    out = tape.op("Reshape", [mixed, _ints(tape, [0, 0, config.n_heads * config.head_dim])])
    out.name, k.name, v.name = "out", "new_key", "new_value"
    return _function(ATTENTION, [values[n] for n in names], [out, k, v], tape, {})


def _function(
    name: str, inputs: list[ir.Value], outputs: list[ir.Value], tape: Tape, attributes: dict[str, float]
) -> ir.Function:
    graph = ir.Graph(inputs, outputs, nodes=tape.nodes, opset_imports={"": OPSET}, name=name)
    attrs = [ir.AttrFloat32(key, value) for key, value in attributes.items()]
    return ir.Function(DOMAIN, name, graph=graph, attributes=attrs)


def _rms_norm(tape: Tape, x: ir.Value, weight: ir.Value, epsilon: float) -> ir.Value:
    square = tape.op("Pow", [x, _scalar(tape, 2.0)])
    mean = tape.op("ReduceMean", [square], {"axes": [-1], "keepdims": 1})
    root = tape.op("Sqrt", [tape.op("Add", [mean, _scalar(tape, epsilon)])])
    return tape.op("Mul", [tape.op("Div", [x, root]), weight])


def _heads(tape: Tape, x: ir.Value, heads: int, head_dim: int) -> ir.Value:
    """``[b, s, heads * head_dim]`` to ``[b, s, heads, head_dim]``."""
    return tape.op("Reshape", [x, _ints(tape, [0, 0, heads, head_dim])])


def _rotate(tape: Tape, x: ir.Value, cos: ir.Value, sin: ir.Value, config: DecoderConfig) -> ir.Value:
    """Turn the first ``rope.dim`` channels of ``[b, heads, s, head_dim]`` by real arithmetic."""
    half, rest = config.rope.dim // 2, config.head_dim - config.rope.dim
    sizes = [half, half, rest] if rest else [half, half]
    parts = tape.op_multi_out("Split", [x, _ints(tape, sizes)], {"axis": -1}, num_outputs=len(sizes))
    first, second = parts[0], parts[1]
    turned_first = tape.op("Sub", [tape.op("Mul", [first, cos]), tape.op("Mul", [second, sin])])
    turned_second = tape.op("Add", [tape.op("Mul", [second, cos]), tape.op("Mul", [first, sin])])
    return tape.op("Concat", [turned_first, turned_second, *parts[2:]], {"axis": -1})


def _repeat_heads(tape: Tape, x: ir.Value, config: DecoderConfig) -> ir.Value:
    """Each key or value head once for every query head it serves, in tensors of four dimensions at most.

    MatMul broadcasts a single head by itself. Otherwise Split and Concat do it: Expand would need five dimensions,
    which several NPUs refuse.
    """
    group = config.n_heads // config.n_kv_heads
    if group == 1 or config.n_kv_heads == 1:
        return x
    sizes = _ints(tape, [1] * config.n_kv_heads)
    heads = tape.op_multi_out("Split", [x, sizes], {"axis": 1}, num_outputs=config.n_kv_heads)
    return tape.op("Concat", [head for head in heads for _ in range(group)], {"axis": 1})


def _scalar(tape: Tape, value: float) -> ir.Value:
    return tape.op("Constant", [], {"value_float": value})


def _ints(tape: Tape, values: list[int]) -> ir.Value:
    return tape.op("Constant", [], {"value_ints": values})
