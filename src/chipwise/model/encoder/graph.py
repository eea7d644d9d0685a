"""The graph of a bert encoder as ONNX in standard operators, with weights that are read when they are written."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from chipwise import __version__
from chipwise.errors import InputError
from chipwise.model.config import EncoderConfig
from chipwise.model.encoder import names
from chipwise.model.encoder.pooling import pool
from chipwise.model.encoder.spec import EncoderSpec
from chipwise.model.graph_pen import GraphPen
from chipwise.model.weights import WeightSource

# The first with LayerNormalization, whose epsilon is an attribute.
OPSET = 17


def build_encoder(config: EncoderConfig, weights: WeightSource, spec: EncoderSpec) -> ir.Model:
    """Write an encoder (BERT: Devlin et al., arXiv 1810.04805) as an ONNX graph.

    Inputs:
        ``input_ids``, ``attention_mask`` (1 for a token, 0 for padding) and ``token_type_ids``, int64 ``[b, s]``.

    Outputs:
        ``last_hidden_state`` float32 ``[b, s, hidden_size]``; ``sentence_embedding`` float32 ``[b, hidden_size]``,
        pooled and normalized as sentence-transformers' settings beside the model say, by default the mean over the
        tokens that are no padding.

    No weight is read before the model is saved, and then one at a time.

    Raises:
        InputError: The graph is to take more tokens than the model has positions for.
        UnknownArchitectureError: The model pools in a way that is not supported.
    """
    if spec.tokens is not None and spec.tokens > config.max_positions:
        raise InputError(
            f"{spec.tokens} tokens, the model has {config.max_positions} positions",
            remedy=f"ask for {config.max_positions} tokens at most",
        )
    return _Writer(config, weights, spec).model()


class _Writer:
    def __init__(self, config: EncoderConfig, weights: WeightSource, spec: EncoderSpec) -> None:
        self.config, self.spec = config, spec
        self.pen = GraphPen(weights)
        self.head_dim = config.hidden_size // config.n_heads

    def model(self) -> ir.Model:
        ids, mask, types = (self._input(n) for n in (names.INPUT_IDS, names.ATTENTION_MASK, names.TOKEN_TYPE_IDS))
        seen = self.pen.op("Cast", [mask], {"to": ir.DataType.FLOAT})
        bias = self._bias(seen)
        x = self._embedding(ids, types)
        for layer in range(self.config.n_layers):
            x = self._attention_part(layer, x, bias)
            x = self._mlp_part(layer, x)
            x.name = names.layer_output(layer)
        hidden = self._output(self.pen.op("Identity", [x]), names.LAST_HIDDEN_STATE, self._tokens())
        embedding = self._output(pool(self.pen, x, seen, self.config), names.SENTENCE_EMBEDDING)
        graph = self.pen.graph([hidden, embedding], name=self.config.arch, opset_imports={"": OPSET})
        return ir.Model(graph, ir_version=9, producer_name="chipwise", producer_version=__version__)

    def _embedding(self, ids: ir.Value, types: ir.Value) -> ir.Value:
        words = self.pen.op("Gather", [self.pen.weight("embeddings.word_embeddings.weight"), ids], {"axis": 0})
        kinds = self.pen.op("Gather", [self.pen.weight("embeddings.token_type_embeddings.weight"), types], {"axis": 0})
        x = self.pen.op("Add", [self.pen.op("Add", [words, kinds]), self._positions(ids)])
        return self._norm(x, "embeddings.LayerNorm")

    def _positions(self, ids: ir.Value) -> ir.Value:
        """The first rows of the position embedding, as many as there are tokens."""
        table = self.pen.weight("embeddings.position_embeddings.weight")
        start = self.pen.constant("axis_0", np.array([0]))
        if self.spec.tokens is not None:
            end = self.pen.constant("token_count", np.array([self.spec.tokens]))
        else:
            end = self.pen.op("Shape", [ids], {"start": 1, "end": 2})
        return self.pen.op("Slice", [table, start, end, start])

    def _bias(self, seen: ir.Value) -> ir.Value:
        """What is added to the scores, ``[b, 1, 1, s]``: 0 for a token, ``mask_value`` for padding."""
        hidden = self.pen.op("Sub", [self.pen.constant("one", np.float32(1)), seen])
        bias = self.pen.op("Mul", [hidden, self.pen.constant("mask_value", np.float32(self.spec.mask_value))])
        return self.pen.op("Unsqueeze", [bias, self.pen.constant("axes_1_2", np.array([1, 2]))])

    def _attention_part(self, layer: int, x: ir.Value, bias: ir.Value) -> ir.Value:
        q, k, v = (self._heads(self._linear(x, layer, f"attention.self.{part}")) for part in ("query", "key", "value"))
        # Scaling q rather than the scores keeps float16 products away from its largest value.
        q = self.pen.op("Mul", [q, self.pen.constant("score_scale", np.float32(self.head_dim**-0.5))])
        keys = self.pen.op("Transpose", [k], {"perm": [0, 1, 3, 2]})
        scores = self.pen.op("Add", [self.pen.op("MatMul", [q, keys]), bias])
        mixed = self.pen.op("MatMul", [self.pen.op("Softmax", [scores], {"axis": -1}), v])
        mixed = self.pen.op("Transpose", [mixed], {"perm": [0, 2, 1, 3]})
        flat = self.pen.op("Reshape", [mixed, self.pen.constant("flat", np.array([0, 0, self.config.hidden_size]))])
        out = self._linear(flat, layer, "attention.output.dense")
        return self._norm(self.pen.op("Add", [out, x]), names.weight(layer, "attention.output.LayerNorm"))

    def _mlp_part(self, layer: int, x: ir.Value) -> ir.Value:
        h = self.pen.activation(self._linear(x, layer, "intermediate.dense"), self.config.activation)
        out = self._linear(h, layer, "output.dense")
        return self._norm(self.pen.op("Add", [out, x]), names.weight(layer, "output.LayerNorm"))

    def _heads(self, x: ir.Value) -> ir.Value:
        """``[b, s, hidden_size]`` to ``[b, heads, s, head_dim]``."""
        shape = self.pen.constant("by_head", np.array([0, 0, self.config.n_heads, self.head_dim]))
        return self.pen.op("Transpose", [self.pen.op("Reshape", [x, shape])], {"perm": [0, 2, 1, 3]})

    def _linear(self, x: ir.Value, layer: int, name: str) -> ir.Value:
        return self.pen.linear(x, f"layers.{layer}.{name}", names.weight(layer, name))

    def _norm(self, x: ir.Value, name: str) -> ir.Value:
        inputs = [x, self.pen.weight(f"{name}.weight"), self.pen.weight(f"{name}.bias")]
        return self.pen.op("LayerNormalization", inputs, {"axis": -1, "epsilon": self.config.norm_eps}, name=name)

    def _input(self, name: str) -> ir.Value:
        return self.pen.input(name, ir.DataType.INT64, self._batch(), self._tokens())

    def _output(self, value: ir.Value, name: str, *middle: int | str) -> ir.Value:
        value.name, value.dtype = name, ir.DataType.FLOAT
        value.shape = ir.Shape([self._batch(), *middle, self.config.hidden_size])
        return value

    def _batch(self) -> int | str:
        return "batch" if self.spec.batch is None else self.spec.batch

    def _tokens(self) -> int | str:
        return "tokens" if self.spec.tokens is None else self.spec.tokens
