"""Small graphs in ONNX's text form, models made of them, and targets with a few limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from chipwise.check.check_input import CheckInput
from chipwise.check.infer import infer_types
from chipwise.check.recipe_name import parse_recipe_name
from chipwise.model.config import DecoderConfig, RopeConfig
from chipwise.model.model import Model, ModelSource
from chipwise.target.chip import Chip
from chipwise.target.compute_unit import ComputeUnit
from chipwise.target.constraints import Constraints
from chipwise.target.memory_region import MemoryRegion
from chipwise.target.provenance import Provenance
from chipwise.target.quantity import Fact, Quantity
from chipwise.target.target import Target

SOURCE = Provenance("assumed", "made up for a test", "2026-01")

SCORES = "kt = Transpose<perm=[0,1,3,2]>(k) s = MatMul(q, kt)"
WEIGHTED = "p = Softmax<axis=-1>(j) y = MatMul(p, v)"


def proto(body: str, opset: int = 17, imports: str = "") -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": {opset}{imports}]>\n{body}')


def graph(body: str, opset: int = 17, imports: str = "") -> ir.Model:
    """A graph from its text, with types inferred."""
    model = ir.from_proto(proto(body, opset, imports))
    infer_types(model)
    return model


def attention(mask: str) -> str:
    """One attention of two heads, six queries and keys; ``mask`` makes ``j`` of the scores ``s``."""
    inputs = "float[1,2,6,8] q, float[1,2,6,8] k, float[1,2,6,8] v, int64[1,6] attention_mask"
    return f"g ({inputs}) => (float[1,2,6,8] y) {{ {SCORES} {mask} {WEIGHTED} }}"


def added(number: str) -> str:
    """(1 - attention_mask) * number, added to the scores, as many exports have it."""
    return (
        "f = Cast<to=1>(attention_mask) ax = Constant<value_ints=[1,2]>() u = Unsqueeze(f, ax) "
        f"o = Constant<value_float=1.0>() d = Sub(o, u) c = Constant<value_float={number}>() "
        "mm = Mul(d, c) j = Add(s, mm)"
    )


SELECTED = (
    "b = Cast<to=9>(attention_mask) ax = Constant<value_ints=[1,2]>() u = Unsqueeze(b, ax) "
    "c = Constant<value_float=-1e4>() j = Where(u, s, c)"
)


def with_initializers(model: ir.Model, **arrays: np.ndarray[Any, Any]) -> ir.Model:
    """Give inputs of the graph constant values, so that they are weights."""
    inputs = {value.name: value for value in model.graph.inputs}
    for name, array in arrays.items():
        value = inputs[name]
        value.const_value = ir.tensor(array, name=name)
        model.graph.inputs.remove(value)
        model.graph.register_initializer(value)
    return model


def q(value: float, unit: str = "1") -> Quantity:
    return Quantity(value, unit, SOURCE)


def fact(value: Any) -> Fact[Any]:
    return Fact(value, SOURCE)


def target(*, engine: str = "rknn", kind: Any = "npu", memory_bytes: float | None = None, **limits: Any) -> Target:
    memory = () if memory_bytes is None else (MemoryRegion("dram", "main", size_bytes=q(memory_bytes, "B")),)
    chip = Chip(
        "testchip", "Test", (engine,), units=(ComputeUnit("u", kind),), memory=memory, constraints=Constraints(**limits)
    )
    return Target(chip)


DECODER = DecoderConfig(
    arch="llama",
    vocab_size=1000,
    hidden_size=64,
    ffn_size=160,
    n_layers=2,
    n_heads=4,
    n_kv_heads=2,
    head_dim=16,
    max_positions=512,
    norm_eps=1e-5,
    rope=RopeConfig(10000.0, 16),
    tied_embeddings=True,
)


def onnx_model(path: Path = Path("m.onnx")) -> Model:
    return Model(ModelSource("onnx", path, "m"), onnx_path=path)


def decoder_model(config: DecoderConfig = DECODER) -> Model:
    return Model(ModelSource("huggingface", Path("tiny"), "tiny"), config=config)


def given_graph(model: ir.Model, on: Target, recipe: str | None = None, **options: Any) -> CheckInput:
    return CheckInput(onnx_model(), on, model, None if recipe is None else parse_recipe_name(recipe), **options)


def given_decoder(on: Target, recipe: str | None = None, config: DecoderConfig = DECODER, **options: Any) -> CheckInput:
    return CheckInput(decoder_model(config), on, None, None if recipe is None else parse_recipe_name(recipe), **options)
