"""The decoder graph: embedding, layers, output, as ONNX with weights that are read when they are written."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise import __version__
from chipwise.model.config import DecoderConfig, RopeConfig
from chipwise.model.decoder import names
from chipwise.model.decoder.functions import OPSET, attention_function, rms_norm_function
from chipwise.model.decoder.rope import causal_bias, rope_tables
from chipwise.model.decoder.spec import GraphSpec
from chipwise.model.graph_pen import GraphPen
from chipwise.model.weights import WeightSource


def build_decoder(config: DecoderConfig, weights: WeightSource, spec: GraphSpec) -> ir.Model:
    """Write a decoder as an ONNX graph in standard operators, grouped in two ONNX functions.

    Inputs:
        ``input_ids`` int64 ``[b, s]``; ``output_rows`` int64 ``[n]``, which of the b * s tokens get logits, unless the
        spec says ``all_rows``;
        for a graph that is not a static prefill ``positions`` int64 ``[b, s]`` and ``attention_bias`` float32
        ``[b, 1, s, t]`` (and ``attention_bias_local`` if some layers slide); for decode ``past.{i}.key`` and
        ``past.{i}.value`` float32 ``[b, kv_heads, context, head_dim]``.

    Outputs:
        ``logits`` float32 ``[n, vocab]``, or ``[b, s, 1, vocab]`` of a static graph of several tokens whose spec says
        ``all_rows``; ``present.{i}.key`` and ``.value``, the new tokens' keys and values
        ``[b, kv_heads, s, head_dim]``.

    No weight is read before the model is saved, and then one at a time.
    """
    return _Writer(config, weights, spec).model()


class _Writer:
    def __init__(self, config: DecoderConfig, weights: WeightSource, spec: GraphSpec) -> None:
        self.config, self.spec = config, spec
        self.pen = GraphPen(weights)
        self.outputs: list[ir.Value] = []
        self.shared: dict[str, ir.Value] = {}

    def model(self) -> ir.Model:
        ids = self.pen.input(names.INPUT_IDS, ir.DataType.INT64, self._batch(), self._tokens())
        rows = None if self.spec.all_rows else self.pen.input(names.OUTPUT_ROWS, ir.DataType.INT64, self._rows())
        x = self.pen.op("Gather", [self.pen.weight(names.EMBEDDING), ids], {"axis": 0})
        if self.config.embed_scale != 1.0:
            x = self.pen.op("Mul", [x, self.pen.constant("embed_scale", np.float32(self.config.embed_scale))])
        x.name = names.EMBEDDED
        turns = [self._turn(slides=self.config.slides(i)) for i in range(self.config.n_layers)]
        for layer, (cos, sin, bias) in enumerate(turns):
            x = self._attention_part(layer, x, cos, sin, bias)
            x = self._mlp_part(layer, x)
        logits = self._head(x, rows)
        graph = self.pen.graph(
            [logits, *self.outputs],
            name=f"{self.config.arch}_{self.spec.phase}",
            opset_imports={"": OPSET, names.DOMAIN: 1},
        )
        functions = [
            rms_norm_function(self.config.norm_eps),
            attention_function(self.config, has_past=self.spec.has_past),
        ]
        return ir.Model(
            graph,
            ir_version=9,
            producer_name="chipwise",
            producer_version=__version__,
            functions=functions,
            metadata_props=self._metadata(),
        )

    def _metadata(self) -> dict[str, str]:
        """What a session must know to feed the graph."""
        known = {
            "chipwise.context": self.spec.context,
            "chipwise.mask_value": self.spec.mask_value,
            "chipwise.sliding_window": self.config.sliding_window,
        }
        return {name: str(value) for name, value in known.items() if value is not None}

    def _attention_part(self, layer: int, x: ir.Value, cos: ir.Value, sin: ir.Value, bias: ir.Value) -> ir.Value:
        h = self._norm(x, names.weight(layer, "input_layernorm.weight"))
        q, k, v = (self._linear(h, layer, f"self_attn.{part}_proj") for part in "qkv")
        for projected, part in ((q, "query"), (k, "key"), (v, "value")):
            projected.name = names.projection(layer, part)
        inputs = [q, k, v, cos, sin, bias]
        if self.spec.has_past:
            inputs += [self._past(layer, part) for part in ("key", "value")]
        if self.config.qk_norm:
            inputs += [self.pen.weight(names.weight(layer, f"self_attn.{part}_norm.weight")) for part in "qk"]
        out, key, value = self.pen.op_multi_out(
            names.ATTENTION, inputs, domain=names.DOMAIN, num_outputs=3, name=f"layers.{layer}.attention"
        )
        self._output(key, names.present(layer, "key"))
        self._output(value, names.present(layer, "value"))
        out.name = names.attention_heads(layer)
        out = self._linear(out, layer, "self_attn.o_proj")
        if self.config.post_norms:
            out = self._norm(out, names.weight(layer, "post_attention_layernorm.weight"))
        out.name = names.attention_output(layer)
        x = self.pen.op("Add", [x, out])
        x.name = names.layer_middle(layer)
        return x

    def _mlp_part(self, layer: int, x: ir.Value) -> ir.Value:
        before = "pre_feedforward_layernorm" if self.config.post_norms else "post_attention_layernorm"
        h = self._norm(x, names.weight(layer, f"{before}.weight"))
        gate = self._linear(h, layer, "mlp.gate_proj")
        up = self._linear(h, layer, "mlp.up_proj")
        out = self._linear(
            self.pen.op("Mul", [self.pen.activation(gate, self.config.activation), up]), layer, "mlp.down_proj"
        )
        if self.config.post_norms:
            out = self._norm(out, names.weight(layer, "post_feedforward_layernorm.weight"))
        out.name = names.mlp_output(layer)
        x = self.pen.op("Add", [x, out])
        x.name = names.layer_output(layer)
        return x

    def _head(self, x: ir.Value, rows: ir.Value | None) -> ir.Value:
        h = self._norm(x, names.FINAL_NORM)
        flat = self.pen.op("Reshape", [h, self.pen.constant("flat_shape", np.array([-1, self.config.hidden_size]))])
        picked = flat if rows is None else self.pen.op("Gather", [flat, rows], {"axis": 0})
        if self.config.tied_embeddings:
            logits = self.pen.op("Gemm", [picked, self.pen.weight(names.EMBEDDING)], {"transB": 1}, name="lm_head")
        else:
            logits = self.pen.op("MatMul", [picked, self.pen.weight(names.LM_HEAD, transposed=True)], name="lm_head")
        if self.config.logit_softcap is not None:
            cap = self.pen.constant("logit_softcap", np.float32(self.config.logit_softcap))
            logits = self.pen.op("Mul", [self.pen.op("Tanh", [self.pen.op("Div", [logits, cap])]), cap])
        shape: list[int | str] = [self._rows(), self.config.vocab_size]
        if rows is None and self.spec.batch is not None and self.spec.tokens is not None and self.spec.tokens > 1:
            # rknn-toolkit2 computes several rows so, and hands a Reshape of many columns back to the CPU. A single row
            # in four dimensions it would turn round there.
            shape = [self.spec.batch, self.spec.tokens, 1, self.config.vocab_size]
            logits = self.pen.op("Reshape", [logits, self.pen.constant("logits_shape", np.array(shape))])
        logits.name = names.LOGITS
        logits.dtype = ir.DataType.FLOAT
        logits.shape = ir.Shape(shape)
        return logits

    def _turn(self, *, slides: bool) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Cosines and sines ``[b, 1, s, dim / 2]`` and mask of a kind of layer."""
        suffix = "_local" if slides else ""
        local_rope = slides and self.config.rope_local is not None
        rope = self.config.rope_local if local_rope and self.config.rope_local else self.config.rope
        cos, sin = self._rope_values(rope, "_local" if local_rope else "")
        if ("bias" + suffix) not in self.shared:
            window = self.config.sliding_window if slides else None
            self.shared["bias" + suffix] = self._bias(suffix, window)
        return cos, sin, self.shared["bias" + suffix]

    def _rope_values(self, rope: RopeConfig, suffix: str) -> tuple[ir.Value, ir.Value]:
        if "cos" + suffix not in self.shared:
            for part, table in zip(("cos", "sin"), rope_tables(rope, self.spec.context), strict=True):
                self.shared[part + suffix] = self._rope_rows(f"rope_{part}{suffix}", table)
        return self.shared["cos" + suffix], self.shared["sin" + suffix]

    def _rope_rows(self, name: str, table: npt.NDArray[np.float32]) -> ir.Value:
        """The rows of a table at the tokens' positions, ``[b, 1, s, dim / 2]``."""
        if self._constant_shapes():
            return self.pen.constant(name, table[: self.spec.tokens][None, None])
        picked = self.pen.op("Gather", [self.pen.constant(name, table), self._positions()], {"axis": 0})
        rows = self.pen.op("Unsqueeze", [picked, self.pen.constant("axis_1", np.array([1]))])
        # What attention reads: ``rope.cos``, ``rope.sin_local``, ...
        rows.name = name.replace("_", ".", 1)
        return rows

    def _bias(self, suffix: str, window: int | None) -> ir.Value:
        if self._constant_shapes() and self.spec.tokens is not None:
            return self.pen.constant(
                f"causal_bias{suffix}", causal_bias(self.spec.tokens, self.spec.mask_value, window)
            )
        seen = "tokens" if not self.spec.has_past else "total"
        if self.spec.tokens is not None and self.spec.has_past:
            total: int | str = self.spec.context + self.spec.tokens
        else:
            total = seen
        return self.pen.input(names.ATTENTION_BIAS + suffix, ir.DataType.FLOAT, self._batch(), 1, self._tokens(), total)

    def _constant_shapes(self) -> bool:
        """Whether positions and mask are constants: a static prefill always starts at position 0."""
        return self.spec.static and not self.spec.has_past

    def _positions(self) -> ir.Value:
        return self.pen.input(names.POSITIONS, ir.DataType.INT64, self._batch(), self._tokens())

    def _past(self, layer: int, part: str) -> ir.Value:
        context = self.spec.context if self.spec.static else "context"
        return self.pen.input(
            names.past(layer, part), ir.DataType.FLOAT,
            self._batch(), self.config.n_kv_heads, context, self.config.head_dim,
        )  # fmt: skip

    def _batch(self) -> int | str:
        return "batch" if self.spec.batch is None else self.spec.batch

    def _tokens(self) -> int | str:
        return "tokens" if self.spec.tokens is None else self.spec.tokens

    def _rows(self) -> int | str:
        return "rows" if self.spec.rows is None else self.spec.rows

    def _linear(self, x: ir.Value, layer: int, name: str) -> ir.Value:
        return self.pen.linear(x, f"layers.{layer}.{name}", names.weight(layer, name))

    def _norm(self, x: ir.Value, weight: str) -> ir.Value:
        return self.pen.op(
            names.RMS_NORM, [x, self.pen.weight(weight)], {"epsilon": self.config.norm_eps}, domain=names.DOMAIN
        )

    def _output(self, value: ir.Value, name: str) -> None:
        value.name = name
        value.dtype = ir.DataType.FLOAT
        value.shape = ir.Shape([self._batch(), self.config.n_kv_heads, self._tokens(), self.config.head_dim])
        self.outputs.append(value)
