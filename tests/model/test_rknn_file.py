from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chipwise.errors import ModelFormatError
from chipwise.model.rknn_file import RknnOperator, RknnTensor, is_rknn_file, read_rknn_file

# Compiled by rknn-toolkit2 2.5.0 from two small graphs of ours.
FOLDER = Path(__file__).parent / "rknn"
CONV = FOLDER / "conv_rk3566_w8a8.rknn"
AWKWARD = FOLDER / "awkward_rk3566_fp16.rknn"
BYTES = {path.name: path.read_bytes() for path in (CONV, AWKWARD)}
SHARED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def tables_end(data: bytes) -> int:
    return 64 + int(struct.unpack_from("<Q", data, 16)[0])


def with_json(data: bytes, text: bytes) -> bytes:
    end = tables_end(data)
    return data[:end] + struct.pack("<Q", len(text)) + text


def fields_of(data: bytes) -> dict[str, object]:
    found: dict[str, object] = json.loads(data[tables_end(data) + 8 :])
    return found


def test_a_quantized_file_says_what_the_toolkit_printed() -> None:
    file = read_rknn_file(CONV)
    assert (file.format_version, file.targets, file.toolkit_version, file.framework) == (
        6,
        ("rk3566",),
        "2.5.0",
        "ONNX",
    )
    assert file.inputs == (RknnTensor("image", (1, 3, 16, 16), "int8", pytest.approx(0.0273155), 15),)
    assert file.outputs == (RknnTensor("scores", (1, 10), "int8", pytest.approx(0.000841143), 29),)
    assert file.operators is not None
    assert [operator.type for operator in file.operators] == ["ConvRelu", "ConvRelu", "Conv", "Conv", "Conv", "Reshape"]
    assert [operator.unit for operator in file.operators] == ["npu"] * 5 + ["cpu"]
    # the log of that build: 2.375KB of weights, 3.75KB of activations
    assert (file.weight_bytes, file.internal_bytes) == (2432, 3840)
    assert file.file_bytes == len(BYTES[CONV.name])


def test_operators_on_the_cpu_are_told_apart() -> None:
    file = read_rknn_file(AWKWARD)
    assert file.inputs == (RknnTensor("ids", (1, 16), "int64"),)
    assert [(one.name, one.shape, one.dtype) for one in file.outputs] == [
        ("vals", (1, 16, 4), "float16"),
        ("idx", (1, 16, 4), "int64"),
        ("det", (1,), "float16"),
    ]
    operators = file.operators or ()
    assert {"Gather", "Erf", "TopK", "Det"} <= {operator.type for operator in operators if operator.unit == "cpu"}
    assert RknnOperator("Conv", "Conv:proj#2", "npu") in operators
    assert file.graphs == 1


def test_tensors_that_pass_between_units_are_told_with_their_bytes() -> None:
    crossings = read_rknn_file(AWKWARD).crossings or ()
    assert [(one.tensor.name, one.writer, one.reader, one.bytes) for one in crossings] == [
        ("e_rs", "cpu", "npu", 16 * 16 * 2),
        ("m_mm", "npu", "cpu", 16 * 16 * 2),
        ("er-rs", "cpu", "npu", 16 * 16 * 2),
        ("m2_mm_tp", "npu", "cpu", 16 * 16 * 2),
        ("vals-rs", "cpu", "npu", 16 * 4 * 2),
    ]


def test_an_unknown_format_version_leaves_what_the_json_says(tmp_path: Path) -> None:
    path = tmp_path / "new.rknn"
    path.write_bytes(BYTES[CONV.name][:8] + struct.pack("<Q", 7) + BYTES[CONV.name][16:])
    file = read_rknn_file(path)
    assert (file.format_version, file.targets, file.framework) == (7, ("rk3566",), "ONNX")
    assert file.inputs == (RknnTensor("image", (1, 3, 16, 16), "unknown"),)
    assert (file.operators, file.crossings, file.graphs) == (None, None, None)
    assert (file.weight_bytes, file.internal_bytes) == (None, None)


def without(field: str) -> Callable[[bytes], bytes]:
    def spoil(data: bytes) -> bytes:
        return with_json(data, json.dumps({k: v for k, v in fields_of(data).items() if k != field}).encode())

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda data: b"", "it is empty"),
        (lambda data: b"RK", "2 of the header's 64 bytes are there"),
        (lambda data: b"GGUF" + data[4:], "begins with b'GGUF'"),
        (lambda data: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "Git LFS pointer"),
        (lambda data: data[:16] + b"\xff" * 8 + data[24:], "announces 18446744073709551615 bytes"),
        (lambda data: data[:-1], "bytes of JSON are announced"),
        (lambda data: data[: tables_end(data)] + b"\xff" * 8 + b"{}", "bytes of JSON are announced"),
        (lambda data: with_json(data, b"not JSON"), "is none"),
        (lambda data: with_json(data, b"\xff\xfe"), "is none"),
        (lambda data: with_json(data, b"[" * 100_000), "is none"),
        (lambda data: with_json(data, b"[]"), "in another form"),
        (lambda data: with_json(data, b" " * (1 << 20) + b"{}"), "more than the 1048576 bytes"),
        (without("target_platform"), "target_platform"),
        (without("version"), "version"),
        (without("norm_tensor"), "norm_tensor"),
        (without("graph"), "graph"),
        (lambda data: data.replace(b'"url":"image"', b'"url":"imago"'), "different inputs"),
        (lambda data: data[:64] + b"\xff" * 4 + data[68:], "an offset leads out of it"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, spoil: Callable[[bytes], bytes], message: str) -> None:
    path = tmp_path / "x.rknn"
    path.write_bytes(spoil(BYTES[CONV.name]))
    with pytest.raises(ModelFormatError) as caught:
        read_rknn_file(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_not_there_or_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match="No such file"):
        read_rknn_file(tmp_path / "none.rknn")
    with pytest.raises(ModelFormatError, match="directory"):
        read_rknn_file(tmp_path)


@SHARED
@given(name=st.sampled_from(sorted(BYTES)), part=st.floats(0, 1, exclude_max=True))
def test_truncated_anywhere_it_is_refused(tmp_path: Path, name: str, part: float) -> None:
    path = tmp_path / "x.rknn"
    path.write_bytes(BYTES[name][: int(part * len(BYTES[name]))])
    with pytest.raises(ModelFormatError):
        read_rknn_file(path)


@st.composite
def flipped(draw: st.DrawFn) -> bytes:
    data = bytearray(BYTES[draw(st.sampled_from(sorted(BYTES)))])
    # header, tables' head and JSON hold the structure; constants and commands in between are never read
    structure = st.one_of(st.integers(0, 10_000), st.integers(tables_end(bytes(data)), len(data) - 1))
    for at in draw(st.lists(structure, min_size=1, max_size=8)):
        data[at] = draw(st.one_of(st.sampled_from([0, 1, 0x7F, 0xFF]), st.integers(0, 255)))
    return bytes(data)


@SHARED
@given(data=flipped())
def test_flipped_bytes_end_in_an_answer_or_one_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.rknn"
    path.write_bytes(data)
    try:
        said = json.dumps(read_rknn_file(path).to_dict(), allow_nan=False)
    except ModelFormatError as e:
        said = str(e)
    assert said
    assert "\n" not in said


def peak_bytes(path: Path) -> int:
    tracemalloc.start()
    try:
        read_rknn_file(path)
    except ModelFormatError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak


def test_constants_take_no_memory(tmp_path: Path) -> None:
    data = BYTES[CONV.name]
    end = tables_end(data)
    path = tmp_path / "x.rknn"
    grown = data[:16] + struct.pack("<Q", end - 64 + 20_000_000) + data[24:end] + bytes(20_000_000) + data[end:]
    path.write_bytes(grown)
    assert peak_bytes(path) < 1_000_000


@pytest.mark.parametrize("count", [1_000, 100_000, 0xFFFFFFFF])
def test_operators_that_are_one_and_the_same_take_no_more_memory_than_the_file(tmp_path: Path, count: int) -> None:
    path = tmp_path / "x.rknn"
    path.write_bytes(with_a_bomb(count))
    with pytest.raises(ModelFormatError, match=r"again and again|leads out"):
        read_rknn_file(path)
    assert peak_bytes(path) < path.stat().st_size


def with_a_bomb(count: int) -> bytes:
    """A file with one graph and 1 MB of constants, whose operators all refer to one table with a name of 50 kB."""
    name = b"a" * 50_000
    listed = min(count, 100_000)
    root, graph, node = struct.pack("<HHHHH", 10, 8, 0, 0, 4), struct.pack("<HHHH", 8, 8, 0, 4), b""
    node = struct.pack("<HHHHH", 10, 8, 0, 0, 4)
    out = bytearray(struct.pack("<I", 16) + root + b"\0\0")  # the root's table at 16, its vtable at 4
    out += struct.pack("<iI", 12, 4)  # field 2: the vector of graphs at 24
    out += struct.pack("<II", 1, 12)  # one graph, at 28 + 12 = 40
    out += graph  # its vtable at 32
    out += struct.pack("<iI", 8, 4)  # the graph's table at 40; field 1: the vector of operators at 48
    first = 52
    table = first + 4 * listed + 12
    out += struct.pack("<I", count) + b"".join(struct.pack("<I", table - (first + 4 * i)) for i in range(listed))
    out += node + b"\0\0" + struct.pack("<iI", 12, 4) + struct.pack("<I", len(name)) + name + bytes(1_000_000)
    head = b"RKNN" + bytes(4) + struct.pack("<QQ", 6, len(out)) + bytes(40)
    return with_json(bytes(head + out), BYTES[CONV.name][tables_end(BYTES[CONV.name]) + 8 :])


def test_it_is_known_by_name_or_by_content(tmp_path: Path) -> None:
    (tmp_path / "renamed.bin").write_bytes(BYTES[CONV.name][:100])
    (tmp_path / "bad.RKNN").write_bytes(b"")
    (tmp_path / "other.bin").write_bytes(b"GGUF")
    assert is_rknn_file(CONV)
    assert is_rknn_file(tmp_path / "renamed.bin")
    assert is_rknn_file(tmp_path / "bad.RKNN")
    assert not is_rknn_file(tmp_path / "other.bin")
    assert not is_rknn_file(tmp_path)
    assert not is_rknn_file(tmp_path / "none")
    assert is_rknn_file(tmp_path / "none.rknn")
    (tmp_path / "bundle.rknn").mkdir()
    assert not is_rknn_file(tmp_path / "bundle.rknn")
