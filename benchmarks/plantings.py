"""Damage with a known culprit, planted in the small model: what attribution must name and the gate must stop.

A planting takes the float prefill and decode graphs of a decoder, with symbolic shapes, and spoils one thing in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

from chipwise.check.infer import infer_types
from chipwise.model.chat_template import ChatTemplate
from chipwise.model.config import DecoderConfig
from chipwise.model.decoder import GraphSpec, build_decoder, names
from chipwise.model.model import Model
from chipwise.model.onnx_file_writer import save_graphs
from chipwise.quant.affine import Affine, affine
from chipwise.quant.pairs import add_initializer, insert_pair
from chipwise.rewrite.decoder_feeds import prompt_feed
from chipwise.rewrite.edit import inline_functions
from chipwise.rewrite.passes.ort_decoder import fuse_decoder
from chipwise.rewrite.runner import Runner
from chipwise.verify.layers import tap

Graphs = dict[str, ir.Model]
Ranges = Mapping[str, tuple[float, float]]
Edit = Callable[[Graphs, "Ground"], None]

# What exporters write for a masked score; in int8 it leaves all others a single step.
MASK = -1e9
ALPACA = (
    "{% for message in messages %}{{ '### ' + message['role'] + ':\\n' + message['content'] + '\\n\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '### assistant:\\n' }}{% endif %}"
)
UNOPENED = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "
    "'\\n' }}{% endfor %}"
)


@dataclass(frozen=True)
class Ground:
    """What damage is planted in.

    Attributes:
        config: The architecture.
        ranges: The lowest and highest number that values took on some prompts.
    """

    config: DecoderConfig
    ranges: Ranges


@dataclass(frozen=True)
class Planting:
    """One damage.

    Attributes:
        words: What was done.
        culprit: What attribution must name first.
        edit: Does it to the graphs; None for damage of another kind.
        template: A chat template in place of the model's own.
    """

    words: str
    culprit: str
    edit: Edit | None = None
    template: str | None = None


def float_graphs(model: Model) -> Graphs:
    """The prefill and decode graphs in float32."""
    if not isinstance(model.config, DecoderConfig) or model.weights is None:
        raise SystemExit("no decoder with weights")
    graphs = {}
    for phase in ("prefill", "decode"):
        graph = build_decoder(model.config, model.weights, GraphSpec(phase, model.config.max_positions))
        inline_functions(graph)
        infer_types(graph)
        graphs[phase] = graph
    return graphs


def fused(model: Model) -> Graphs:
    """The same model in ONNX Runtime's operators: it computes the same in another order."""
    if not isinstance(model.config, DecoderConfig) or model.weights is None:
        raise SystemExit("no decoder with weights")
    graph = build_decoder(model.config, model.weights, GraphSpec("decode", model.config.max_positions))
    return {"decoder": fuse_decoder(graph, model.config)}


def ground(model: Model, prompts: Sequence[Sequence[int]]) -> Ground:
    """Calibrate what plantings need ranges of."""
    config = model.config
    if not isinstance(config, DecoderConfig):
        raise SystemExit("no decoder")
    graph = float_graphs(model)["prefill"]
    wanted = []
    for layer in range(config.n_layers):
        products = [f"layers.{layer}.mlp.down_proj"]
        inputs = {node.name: node.inputs[0] for node in graph.graph if node.name in products}
        for value in inputs.values():
            if value is not None:
                value.name = f"layers.{layer}.gated"
        wanted += [names.layer_output(layer), f"layers.{layer}.gated"]
        wanted += [names.present(layer, part) for part in ("key", "value")]
    tap(graph, wanted)
    runner = Runner(graph, threads=1)
    seen: dict[str, tuple[float, float]] = {}
    for prompt in prompts:
        for name, values in runner.run(prompt_feed(graph.graph, prompt), wanted).items():
            low, high = seen.get(name, (0.0, 0.0))
            seen[name] = (min(low, float(values.min())), max(high, float(values.max())))
    return Ground(config, seen)


def write(graphs: Graphs, folder: Path, stem: str) -> dict[str, Path]:
    """Save graphs with their weights in one file; the paths by role."""
    saved = save_graphs({f"{stem}.{role}": graph for role, graph in graphs.items()}, folder, f"{stem}.bin")
    return {role: saved[f"{stem}.{role}"].path for role in graphs}


def template_of(planting: Planting, own: ChatTemplate) -> ChatTemplate:
    """The chat template a planting has."""
    if planting.template is None:
        return own
    return ChatTemplate(planting.template, bos_token=own.bos_token, eos_token=own.eos_token)


def weights_at_2_bits(*weights: str) -> Edit:
    """Round weights to four steps, one scale a matrix."""

    def edit(graphs: Graphs, _: Ground) -> None:
        for graph in graphs.values():
            for name, value in list(graph.graph.initializers.items()):
                if name in weights and value.const_value is not None:
                    value.const_value = ir.tensor(_two_bits(value.const_value.numpy()), name=name)

    return edit


def _two_bits(weight: np.ndarray) -> np.ndarray:
    """In steps of half the largest magnitude, from -2 to 1 of them."""
    step = np.abs(weight).max() / 2
    return (np.clip(np.rint(weight / step), -2, 1) * step).astype(np.float32)


def output_at_2_bits(graphs: Graphs, _: Ground) -> None:
    """The output layer alone, where it shares its weights with the embedding."""
    for graph in graphs.values():
        head = next(node for node in graph.graph if node.name == "lm_head")
        weight = head.inputs[1]
        if weight is None or weight.const_value is None:
            raise SystemExit("the output layer has no weight")
        spoilt = _two_bits(weight.const_value.numpy())
        head.replace_input_with(1, add_initializer(graph.graph, "spoilt_lm_head", spoilt))


def int8_scores(layer: int) -> Edit:
    """One attention's masked scores through an 8-bit scale that spans the mask."""

    def edit(graphs: Graphs, place: Ground) -> None:
        for graph in graphs.values():
            softmax = [node for node in graph.graph if node.op_type == "Softmax"][layer]
            scores = softmax.inputs[0]
            add = None if scores is None else scores.producer()
            if scores is None or add is None or add.inputs[1] is None:
                raise SystemExit("no masked scores")
            ratio = add_initializer(graph.graph, f"mask_ratio_{layer}", np.array(MASK / -64.0, np.float32))
            mask = ir.node("Mul", [add.inputs[1], ratio])
            mask.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
            graph.graph.insert_before(add, mask)
            add.replace_input_with(1, mask.outputs[0])
            insert_pair(graph.graph, scores, affine(MASK, 64.0))

    return edit


def int8_range(value: str, share: float) -> Edit:
    """One value in 8 bits whose range is a multiple of what calibration saw: wider rounds, narrower clips."""

    def edit(graphs: Graphs, place: Ground) -> None:
        low, high = place.ranges[value]
        for graph in graphs.values():
            insert_pair(graph.graph, _value(graph, value), affine(share * low, share * high))

    return edit


def int8_gated(layer: int, share: float) -> Edit:
    """What one feed-forward's down projection reads, likewise."""

    def edit(graphs: Graphs, place: Ground) -> None:
        low, high = place.ranges[f"layers.{layer}.gated"]
        for graph in graphs.values():
            product = next(node for node in graph.graph if node.name == f"layers.{layer}.mlp.down_proj")
            if product.inputs[0] is not None:
                insert_pair(graph.graph, product.inputs[0], affine(share * low, share * high), users=[product])

    return edit


def kv_at_4_bits(*layers: int, share: float = 1.0) -> Edit:
    """Keys and values of some layers in 16 steps, as they are stored and read."""

    def edit(graphs: Graphs, place: Ground) -> None:
        for layer in layers:
            for name in (names.present(layer, part) for part in ("key", "value")):
                most = share * max(abs(end) for end in place.ranges[name])
                for graph in graphs.values():
                    _round(graph.graph, _value(graph, name), np.float32(most / 7))

    return edit


def shifted_decode(by: int) -> Edit:
    """Decode counts its positions from another start than prefill."""

    def edit(graphs: Graphs, _: Ground) -> None:
        graph = graphs["decode"].graph
        positions = next(value for value in graph.inputs if value.name == names.POSITIONS)
        uses = list(positions.uses())
        shift = add_initializer(graph, "shift", np.array(by, np.int64))
        moved = ir.node("Add", [positions, shift])
        moved.outputs[0].type = ir.TensorType(ir.DataType.INT64)
        graph.insert_before(uses[0][0], moved)
        for node, index in uses:
            node.replace_input_with(index, moved.outputs[0])

    return edit


def scaled_positions(by: float) -> Edit:
    """Rotary tables that turn at another speed: a base or a scaling that was read wrong."""

    def edit(graphs: Graphs, _: Ground) -> None:
        for graph in graphs.values():
            cos, sin = (graph.graph.initializers[name] for name in ("rope_cos", "rope_sin"))
            if cos.const_value is None or sin.const_value is None:
                raise SystemExit("no rotary tables")
            angle = by * np.unwrap(np.arctan2(sin.const_value.numpy(), cos.const_value.numpy()), axis=0)
            cos.const_value = ir.tensor(np.cos(angle).astype(np.float32), name="rope_cos")
            sin.const_value = ir.tensor(np.sin(angle).astype(np.float32), name="rope_sin")

    return edit


def _value(graph: ir.Model, name: str) -> ir.Value:
    return next(value for node in graph.graph for value in node.outputs if value.name == name)


def _round(graph: ir.Graph, value: ir.Value, step: np.float32) -> None:
    """Let all who read a value read it in 16 steps; a pair of 8 bits keeps the name where it must stay."""
    insert_pair(graph, value, Affine(step, 0))
    back = next(one for node in graph for one in node.outputs if one.name == str(value.name).removesuffix(".float"))
    quantize = next(node for node, _ in value.uses() if node.op_type == "QuantizeLinear")
    clip = ir.node(
        "Clip",
        [value, *(add_initializer(graph, f"{back.name}.{end}", np.float32(n * step)) for end, n in _ENDS.items())],
    )
    clip.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    graph.insert_before(quantize, clip)
    quantize.replace_input_with(0, clip.outputs[0])


_ENDS = {"low": -8.0, "high": 7.0}


def plantings(layers: int) -> Iterator[Planting]:
    """The benchmark's, for a decoder of at least four layers with the output layer's weights in its embedding."""
    for layer in (0, 2):
        weights = [names.weight(layer, f"self_attn.{part}_proj.weight") for part in "qkvo"]
        yield Planting(
            f"attention of layer {layer} at 2 bits", f"layers.{layer}.attention", weights_at_2_bits(*weights)
        )
    for layer in (0, 3):
        weights = [names.weight(layer, f"mlp.{part}_proj.weight") for part in ("gate", "up", "down")]
        yield Planting(
            f"feed-forward of layer {layer} at 2 bits", f"layers.{layer}.feed_forward", weights_at_2_bits(*weights)
        )
    yield Planting("output layer at 2 bits", "output", output_at_2_bits)
    for layer in (1, 3):
        yield Planting(
            f"scores of layer {layer} in int8 with a mask of -1e9", f"layers.{layer}.attention", int8_scores(layer)
        )
    yield Planting("keys and values of layer 0 at 4 bits", "layers.0.kv_cache", kv_at_4_bits(0))
    yield Planting("positions in decode shifted by 3", "positions", shifted_decode(3))
    yield Planting("rotary angles a quarter too large", "positions", scaled_positions(1.25))
    yield Planting("a chat template of another family", "template", template=ALPACA)
    yield Planting("a chat template that does not open the answer", "template", template=UNOPENED)
    yield Planting("keys and values of all layers at 4 bits", "kv_cache", kv_at_4_bits(*range(layers)))
    yield Planting(
        "feed-forward of layer 2 in int8 with a scale of an outlier, 64 times too wide", "layers.2.feed_forward",
        int8_gated(2, 64.0),
    )  # fmt: skip
    yield Planting(
        "residual stream after layer 1 in int8, clipped at a quarter of its range", "layers.1.residual",
        int8_range(names.layer_output(1), 0.25),
    )  # fmt: skip
