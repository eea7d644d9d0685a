from __future__ import annotations

import errno
import mmap
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from chipwise.errors import ModelFormatError, OutputError
from chipwise.model.onnx_file_writer import save_graph, save_graphs
from chipwise.model.weights_file import WeightsFile

RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((40, 300)).astype(np.float32)


def _value(name: str, tensor: Any) -> ir.Value:
    tensor = ir.tensor(tensor, name=name) if isinstance(tensor, np.ndarray) else tensor
    shape = ir.Shape(tensor.shape.numpy())
    return ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=shape, const_value=tensor)


def _model(*weights: ir.Value) -> ir.Model:
    """x @ each weight and their sum, a constant small enough to stay in the graph."""
    x = ir.val("x", ir.DataType.FLOAT, ["n", 40])
    nodes = [ir.node("MatMul", [x, weight]) for weight in weights]
    total = nodes[0].outputs[0]
    for node in nodes[1:]:
        nodes.append(ir.node("Add", [total, node.outputs[0]]))
        total = nodes[-1].outputs[0]
    small = _value("small", np.float32([1, 2, 3]))
    first = ir.node("ReduceSum", [small], {"keepdims": 0})
    nodes += [first, ir.node("Add", [total, first.outputs[0]])]
    y = nodes[-1].outputs[0]
    y.name, y.dtype, y.shape = "y", ir.DataType.FLOAT, ir.Shape(["n", 300])
    graph = ir.Graph([x], [y], nodes=nodes, initializers=[*weights, small], opset_imports={"": 17}, name="g")
    return ir.Model(graph, ir_version=9)


def _run(path: Path) -> np.ndarray:
    x = np.ones((2, 40), np.float32)
    return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def test_a_graph_and_its_weights(tmp_path: Path) -> None:
    other = np.asfortranarray(RNG.standard_normal((40, 300)).astype(np.float32))
    model = _model(_value("a", WEIGHT), _value("b", other))
    before = [value.const_value for value in model.graph.initializers.values()]
    saved = save_graph(model, tmp_path, "graph")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph.bin", "graph.onnx"]
    assert np.allclose(_run(saved.path), (WEIGHT + other).sum(0) + 6, atol=1e-4)
    assert set(saved.tensors) == {"a", "b"}
    for name, values in (("a", WEIGHT), ("b", other)):
        place = saved.tensors[name]
        assert (place.dtype, place.shape, place.length_bytes) == ("FLOAT", (40, 300), 48000)
        assert place.offset_bytes % 64 == 0
        content = saved.weights.read_bytes()[place.offset_bytes :][: place.length_bytes]
        assert content == values.tobytes()
    assert [value.const_value for value in model.graph.initializers.values()] == before, "the model is as it was"


def test_pages_for_what_is_worth_mapping(tmp_path: Path) -> None:
    large = [RNG.standard_normal((40, 500)).astype(np.float32) for _ in range(3)]
    saved = save_graph(_model(_value("odd", WEIGHT[:, :299].copy())), tmp_path, "odd")
    assert saved.tensors["odd"].offset_bytes == 0
    with WeightsFile(tmp_path / "w.bin") as weights:
        offsets = [weights.add(ir.tensor(array))[0] for array in (WEIGHT[:1], *large)]
        path = weights.commit()
    assert all(offset % mmap.PAGESIZE == 0 for offset in offsets)
    for offset, array in zip(offsets[1:], large, strict=True):
        assert (np.memmap(path, np.float32, "r", offset, array.shape) == array).all()


def test_equal_bytes_are_written_once_whatever_their_name_and_shape(tmp_path: Path) -> None:
    packed = RNG.integers(0, 255, (50, 8, 16), np.uint8)
    with WeightsFile(tmp_path / "w.bin") as weights:
        first = weights.add(ir.tensor(packed))
        assert weights.add(ir.tensor(WEIGHT)) != first
        assert weights.add(ir.tensor(packed.reshape(50, 128))) == first
        changed = packed.copy()
        changed[-1, -1, -1] ^= 1
        last = weights.add(ir.tensor(changed))
        assert last[0] > first[0]
        path = weights.commit()
    assert path.stat().st_size == last[0] + packed.nbytes
    assert path.read_bytes()[last[0] :] == changed.tobytes()


def test_equal_checksums_do_not_make_contents_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chipwise.model.weights_file.zlib.crc32", lambda *_: 0)
    monkeypatch.setattr("chipwise.model.weights_file._CHUNK_BYTES", 1000)
    with WeightsFile(tmp_path / "w.bin") as weights:
        places = [weights.add(ir.tensor(array)) for array in (WEIGHT, WEIGHT + 1, WEIGHT.copy(), WEIGHT + 2)]
        path = weights.commit()
    assert places[2] == places[0]
    assert len({offset for offset, _ in places}) == 3
    assert path.read_bytes()[places[3][0] :] == (WEIGHT + 2).tobytes()


def test_two_graphs_share_one_file(tmp_path: Path) -> None:
    reads = []

    def lazy() -> ir.Value:
        def read() -> ir.TensorProtocol:
            reads.append(1)
            return ir.tensor(WEIGHT)

        return _value("a", ir.LazyTensor(read, ir.DataType.FLOAT, ir.Shape([40, 300]), name="a"))

    models = {"prefill": _model(lazy()), "decode": _model(lazy(), _value("b", WEIGHT * 2))}
    saved = save_graphs(models, tmp_path, "weights.bin")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["decode.onnx", "prefill.onnx", "weights.bin"]
    weights = saved["prefill"].weights
    assert weights == saved["decode"].weights
    assert saved["prefill"].tensors["a"] == saved["decode"].tensors["a"]
    assert weights.stat().st_size < 2.1 * WEIGHT.nbytes
    assert len(reads) == 2, "each tensor object is read once"
    assert np.allclose(_run(saved["prefill"].path), WEIGHT.sum(0) + 6, atol=1e-4)
    assert np.allclose(_run(saved["decode"].path), 3 * WEIGHT.sum(0) + 6, atol=1e-4)


def test_one_tensor_under_two_names_is_read_once(tmp_path: Path) -> None:
    reads = []

    def read() -> ir.TensorProtocol:
        reads.append(1)
        return ir.tensor(WEIGHT)

    tensor = ir.LazyTensor(read, ir.DataType.FLOAT, ir.Shape([40, 300]), name="a")
    saved = save_graph(_model(_value("a", tensor), _value("b", tensor)), tmp_path, "graph")
    assert len(reads) == 1
    assert saved.tensors["a"] == saved.tensors["b"]


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (WEIGHT.astype(ml_dtypes.bfloat16).T, ir.DataType.BFLOAT16),
        (WEIGHT.astype(np.float16)[:, ::2], ir.DataType.FLOAT16),
        (RNG.integers(0, 16, (7, 9)).astype(ml_dtypes.uint4), ir.DataType.UINT4),
        (np.float32(3.5), ir.DataType.FLOAT),
        (np.zeros((0, 4), np.float32), ir.DataType.FLOAT),
    ],
)
def test_every_type_as_onnx_stores_it(array: Any, dtype: ir.DataType, tmp_path: Path) -> None:
    tensor = ir.tensor(np.asarray(array), dtype=dtype)
    with WeightsFile(tmp_path / "w.bin") as weights:
        offset, length = weights.add(tensor)
        path = weights.commit()
    assert path.read_bytes()[offset : offset + length] == tensor.tobytes()


def test_a_graph_without_large_weights_has_no_file_beside_it(tmp_path: Path) -> None:
    x = ir.val("x", ir.DataType.FLOAT, [1])
    node = ir.node("Neg", [x])
    node.outputs[0].name = "y"
    model = ir.Model(ir.Graph([x], node.outputs, nodes=[node], opset_imports={"": 17}, name="g"), ir_version=9)
    saved = save_graph(model, tmp_path, "graph")
    assert saved.weights is None
    assert [path.name for path in tmp_path.iterdir()] == ["graph.onnx"]


def test_nothing_is_left_when_a_weight_cannot_be_read(tmp_path: Path) -> None:
    def read() -> ir.TensorProtocol:
        raise ModelFormatError("truncated")

    tensor = ir.LazyTensor(read, ir.DataType.FLOAT, ir.Shape([40, 300]), name="b")
    model = _model(_value("a", WEIGHT), _value("b", tensor))
    with pytest.raises(ModelFormatError, match="truncated"):
        save_graph(model, tmp_path, "graph")
    assert not list(tmp_path.iterdir())
    assert model.graph.initializers["b"].const_value is tensor


def test_a_full_disk_is_one_error_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(WeightsFile, "_append", fail)
    with pytest.raises(OutputError, match="no space left") as e:
        save_graph(_model(_value("a", WEIGHT)), tmp_path, "graph")
    assert "\n" not in str(e.value)
    assert not list(tmp_path.iterdir())


def test_what_is_refused_only_when_the_file_is_closed_is_not_left(tmp_path: Path) -> None:
    code = (
        "import pathlib, resource, signal, sys\n"
        "import numpy as np, onnx_ir as ir\n"
        "from chipwise.errors import OutputError\n"
        "from chipwise.files import writing\n"
        "from chipwise.model.weights_file import WeightsFile\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "path = pathlib.Path(sys.argv[1]) / 'w.bin'\n"
        "try:\n"
        "    with writing(path), WeightsFile(path) as weights:\n"
        "        weights.add(ir.tensor(np.arange(500, dtype=np.float32)))\n"
        "        weights.commit()\n"
        "except OutputError as e:\n"
        "    sys.exit(str(e))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "takes no file that large" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_when_a_graph_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "b.onnx").mkdir()
    with pytest.raises(OutputError, match=r"b\.onnx"):
        save_graphs({"a": _model(_value("a", WEIGHT)), "b": _model(_value("a", WEIGHT))}, tmp_path, "w.bin")
    assert [path.name for path in tmp_path.iterdir()] == ["b.onnx"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="nowhere"):
        save_graph(_model(_value("a", WEIGHT)), tmp_path / "nowhere", "graph")
