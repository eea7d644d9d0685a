from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.build.sample_files import read_samples
from chipwise.errors import InputError
from tests.quant.small_graphs import INT64, graph


@pytest.fixture(scope="module")
def one() -> ir.Graph:
    return graph([], {"x": ["batch", 3, 4]}, {}, {}).graph


@pytest.fixture(scope="module")
def two() -> ir.Graph:
    return graph([], {"x": [2, 3], "ids": [2, 5]}, {}, {}, types={"ids": INT64}).graph


def _arrays(n: int) -> np.ndarray:
    return np.arange(n * 12, dtype=np.float32).reshape(n, 3, 4)


def test_one_file_of_many_samples_is_cut_by_the_batch(one: ir.Graph, tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", x=_arrays(5))
    found = read_samples(tmp_path / "s.npz", one)
    assert len(found) == 5
    assert [feed["x"].shape for feed in found] == [(1, 3, 4)] * 5
    assert found[2]["x"][0, 0, 0] == 24
    assert [len(part) for part in (found[:2], found[2:])] == [2, 3]


def test_an_array_of_one_axis_more_than_the_input(two: ir.Graph, tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", x=np.zeros((7, 2, 3)), ids=np.zeros((7, 2, 5), int))
    assert [feed["ids"].shape for feed in read_samples(tmp_path / "s.npz", two)] == [(2, 5)] * 7


def test_a_fixed_batch_takes_as_many_rows_at_once(two: ir.Graph, tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", x=np.zeros((8, 3)), ids=np.zeros((8, 5), int))
    assert len(read_samples(tmp_path / "s.npz", two)) == 4


def test_a_bare_array_for_a_graph_of_one_input(one: ir.Graph, tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", _arrays(2))
    assert len(read_samples(tmp_path / "s.npy", one)) == 2


def test_a_folder_has_one_sample_a_file_and_reads_it_when_asked(one: ir.Graph, tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", _arrays(1) + 1)
    np.savez(tmp_path / "a.npz", x=_arrays(1))
    (tmp_path / "notes.txt").write_text("not a sample")
    found = read_samples(tmp_path, one)
    assert [float(feed["x"][0, 0, 0]) for feed in found] == [0, 1]
    np.save(tmp_path / "b.npy", _arrays(1) + 5)
    assert found[1]["x"][0, 0, 0] == 5


def _refused(path: Path, graph: ir.Graph) -> str:
    with pytest.raises(InputError) as caught:
        read_samples(path, graph)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_what_is_no_sample(one: ir.Graph, tmp_path: Path) -> None:
    assert "no such file" in _refused(tmp_path / "gone.npz", one)
    (tmp_path / "empty").mkdir()
    assert "no samples in it" in _refused(tmp_path / "empty", one)
    (tmp_path / "s.csv").write_text("1,2")
    assert "a .csv file" in _refused(tmp_path / "s.csv", one)
    for content in (b"", b"PK\x03\x04 torn", b"\x93NUMPY\x01", b"nothing"):
        (tmp_path / "s.npz").write_bytes(content)
        assert "no arrays can be read" in _refused(tmp_path / "s.npz", one)


def test_pickled_objects_are_not_opened(one: ir.Graph, tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", x=np.array([{"a": 1}], dtype=object))
    assert "no arrays can be read" in _refused(tmp_path / "s.npz", one)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"y": _arrays(1)}, "has no array 'x'; name the arrays x"),
        ({"x": _arrays(1), "z": _arrays(1)}, "has an array 'z' that is no input"),
        ({"x": np.zeros((4, 4))}, "the array x is [4, 4], the input [batch, 3, 4]"),
        ({"x": np.zeros((1, 3, 5))}, "the array x is [1, 3, 5], the input [batch, 3, 4]"),
        ({"x": np.full((1, 3, 4), np.nan)}, "holds NaN or infinity"),
        ({"x": np.full((1, 3, 4), "a")}, "not numbers"),
        ({"x": np.zeros((0, 3, 4))}, "no samples in it"),
    ],
)
def test_arrays_that_do_not_fit(arrays: dict[str, np.ndarray], says: str, one: ir.Graph, tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", **arrays)
    assert says in _refused(tmp_path / "s.npz", one)


def test_a_wrong_file_in_a_folder_is_named_before_the_work_starts(one: ir.Graph, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", _arrays(1))
    np.save(tmp_path / "b.npy", _arrays(1)[:, :2])
    with pytest.raises(InputError, match=r"b\.npy"):
        read_samples(tmp_path, one)


def test_inputs_of_different_numbers(two: ir.Graph, tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", x=np.zeros((4, 3)), ids=np.zeros((6, 5), int))
    assert "not as many samples of every input: 2 of x, 3 of ids" in _refused(tmp_path / "s.npz", two)
    np.savez(tmp_path / "s.npz", x=np.zeros((3, 3)), ids=np.zeros((3, 5), int))
    assert "3 rows of x are no multiple of its batch of 2" in _refused(tmp_path / "s.npz", two)
