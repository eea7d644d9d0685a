"""ONNX files: taken as they are, if they and their external data are whole."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from chipwise.errors import ModelFormatError
from chipwise.model.importer import onnx_file
from chipwise.model.importer.onnx_file import load_onnx
from tests.model.importer.test_hf_tokenizer import word_tokenizer


def small_graph() -> onnx.ModelProto:
    weight = numpy_helper.from_array(np.arange(512, dtype=np.float32).reshape(16, 32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 32])],
        [weight],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])


def external(folder: Path, model: onnx.ModelProto | None = None) -> Path:
    onnx.save(
        model or small_graph(),
        folder / "model.onnx",
        save_as_external_data=True,
        location="model.onnx.data",
        size_threshold=0,
        convert_attribute=True,
    )
    return folder / "model.onnx"


def point(path: Path, **changes: str) -> None:
    """Change where the first initializer says its data lies."""
    model = onnx.load(path, load_external_data=False)
    tensor = model.graph.initializer[0]
    kept = {entry.key: entry.value for entry in tensor.external_data} | changes
    del tensor.external_data[:]
    for key, value in kept.items():
        tensor.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())


def test_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    onnx.save(small_graph(), path)
    model = load_onnx(path)
    assert (model.source.kind, model.source.name, model.onnx_path) == ("onnx", "small", path)
    assert model.config is None
    assert model.weights is None
    assert model.tokenizer is None


@pytest.mark.parametrize("nested", [False, True])
def test_tokenizer_beside_it(nested: bool, tmp_path: Path) -> None:
    folder = tmp_path / "onnx" if nested else tmp_path
    folder.mkdir(exist_ok=True)
    onnx.save(small_graph(), folder / "model.onnx")
    word_tokenizer().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n")
    model = load_onnx(folder / "model.onnx")
    assert model.tokenizer is not None
    assert model.tokenizer.encode("hello world") == [4, 5]
    assert model.source.licence == "mit"


def test_external_data(tmp_path: Path) -> None:
    assert load_onnx(external(tmp_path)).onnx_path == tmp_path / "model.onnx"


def test_missing_external_data(tmp_path: Path) -> None:
    path = external(tmp_path)
    (tmp_path / "model.onnx.data").unlink()
    with pytest.raises(ModelFormatError, match=r"model\.onnx\.data: the file is missing"):
        load_onnx(path)


def test_external_data_that_is_a_pointer(tmp_path: Path) -> None:
    path = external(tmp_path)
    (tmp_path / "model.onnx.data").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ModelFormatError, match=r"model\.onnx\.data: a Git-LFS pointer"):
        load_onnx(path)


def test_truncated_external_data(tmp_path: Path) -> None:
    path = external(tmp_path)
    data = tmp_path / "model.onnx.data"
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(ModelFormatError, match=r"model\.onnx\.data.*truncated: tensor w ends at byte 2,048 of 2,047"):
        load_onnx(path)


def test_external_data_shorter_than_the_shape(tmp_path: Path) -> None:
    path = external(tmp_path)
    point(path, length="8")
    (tmp_path / "model.onnx.data").write_bytes(bytes(100))
    with pytest.raises(ModelFormatError, match="tensor w ends at byte 2,048 of 100"):
        load_onnx(path)


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname"])
def test_external_data_outside_the_folder(location: str, tmp_path: Path) -> None:
    path = external(tmp_path)
    point(path, location=location)
    with pytest.raises(ModelFormatError, match="outside the model's folder"):
        load_onnx(path)


@pytest.mark.parametrize("changes", [{"offset": "-8"}, {"offset": "many"}])
def test_external_data_at_no_place(changes: dict[str, str], tmp_path: Path) -> None:
    path = external(tmp_path)
    point(path, **changes)
    with pytest.raises(ModelFormatError, match=r"tensor w has damaged external data .*; download or export it again"):
        load_onnx(path)


def test_external_data_inside_a_subgraph(tmp_path: Path) -> None:
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.ones(64, np.float32), "c"))
    branch = helper.make_graph([constant], "branch", [], [helper.make_tensor_value_info("c", TensorProto.FLOAT, [64])])
    node = helper.make_node("If", ["b"], ["y"], then_branch=branch, else_branch=branch)
    graph = helper.make_graph(
        [node],
        "outer",
        [helper.make_tensor_value_info("b", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64])],
    )
    path = external(tmp_path, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)]))
    load_onnx(path)
    (tmp_path / "model.onnx.data").write_bytes(b"short")
    with pytest.raises(ModelFormatError, match="tensor c ends at byte"):
        load_onnx(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git-LFS pointer"),
        (b"<html>not found</html>", "truncated or no ONNX file"),
        (b"\x08\x09", "no nodes"),
    ],
)
def test_what_is_no_onnx(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelFormatError, match=message):
        load_onnx(path)


def test_too_large_for_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(small_graph(), path)
    monkeypatch.setattr(onnx_file, "_MAX_FILE_BYTES", 100)
    with pytest.raises(ModelFormatError, match="holds 100; save the model with external data"):
        load_onnx(path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_cut_anywhere(tmp_path: Path, data: st.DataObject) -> None:
    whole = small_graph().SerializeToString()
    path = tmp_path / "cut.onnx"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(ModelFormatError, match=r"truncated|empty"):
        load_onnx(path)


def test_external_data_in_a_file_that_cannot_be(tmp_path: Path) -> None:
    path = external(tmp_path)
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"model.onnx.data", b"model\0onnx.data"))
    with pytest.raises(ModelFormatError, match=r"damaged external data .*; download or export it again"):
        load_onnx(path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1), value=st.integers(0, 255))
@example(place=0.375, value=0)
def test_a_damaged_byte_is_an_error_of_ours_or_none(tmp_path: Path, place: float, value: int) -> None:
    path = external(tmp_path)
    raw = bytearray(path.read_bytes())
    raw[int(place * (len(raw) - 1))] = value
    path.write_bytes(raw)
    with contextlib.suppress(ModelFormatError):
        assert load_onnx(path).onnx_path == path
