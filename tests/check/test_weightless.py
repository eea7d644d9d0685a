from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir

from chipwise.check.weightless import weightless
from tests.check.graphs import graph, with_initializers


def _model() -> ir.Model:
    model = graph(
        "g (float[2,64] x, float[64,64] w, float[64] b) => (float[2,64] y) { a = MatMul(x, w) y = Add(a, b) }"
    )
    rng = np.random.default_rng(0)
    return with_initializers(
        model, w=rng.standard_normal((64, 64)).astype(np.float32), b=rng.standard_normal(64).astype(np.float32)
    )


def test_large_weights_stay_behind_and_come_back() -> None:
    model = _model()
    bare = weightless(model)
    assert list(bare.in_memory) == ["w"]
    assert bare.in_files == {}
    assert bare.folder is None
    assert len(bare.proto.SerializeToString()) < 64 * 64 * 4
    back = ir.from_proto(bare.proto)
    bare.restore(back)
    assert back.graph.initializers["w"].const_value is model.graph.initializers["w"].const_value


def test_weights_in_a_file_stay_in_it(tmp_path: Path) -> None:
    ir.save(_model(), tmp_path / "m.onnx", external_data="m.data", size_threshold_bytes=0)
    bare = weightless(ir.load(tmp_path / "m.onnx"))
    assert list(bare.in_files) == ["w"]
    assert bare.in_memory == {}
    assert bare.folder == tmp_path
    # Small tensors are needed by shape inference, wherever they were.
    assert [len(one.raw_data) for one in bare.proto.graph.initializer] == [0, 256]


def test_the_model_is_not_changed_and_unused_weights_are_left_out() -> None:
    model = _model()
    extra = ir.Value(name="unused", const_value=ir.tensor(np.ones((64, 64), np.float32), name="unused"))
    model.graph.register_initializer(extra)
    bare = weightless(model)
    assert [one.name for one in bare.proto.graph.initializer] == ["w", "b"]
    assert set(model.graph.initializers) == {"w", "b", "unused"}
    assert not isinstance(model.graph.initializers["w"].const_value, ir.ExternalTensor)
