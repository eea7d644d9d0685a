"""One file for several shapes: what is listed, with which samples, and builds by the stand-in and the real toolkit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper as oh
from onnx import numpy_helper as nh

from chipwise.build import BuildOptions, BuildResult, build
from chipwise.build.shape_samples import gather_shape_samples
from chipwise.build.shape_sets import ShapeSet, largest
from chipwise.bundle import open_bundle
from chipwise.errors import InputError
from chipwise.model.rknn_file import read_rknn_file
from chipwise.toolchain import Environment
from chipwise.toolchain.environment import FOLDER_VARIABLE
from tests.build import fake_rknn

SETS: tuple[Mapping[str, int], ...] = ({"N": 1, "H": 16}, {"N": 2, "H": 16}, {"N": 4, "H": 24}, {"N": 1, "H": 8})


def write_conv(path: Path) -> Path:
    """Two convolutions over ``image [N, 3, H, 16]``."""
    random = np.random.default_rng(0)
    weights = {"w1": random.normal(0, 0.2, (8, 3, 3, 3)), "w2": random.normal(0, 0.2, (4, 8, 3, 3))}
    graph = oh.make_graph(
        [
            oh.make_node("Conv", ["image", "w1"], ["c"], pads=[1, 1, 1, 1]),
            oh.make_node("Relu", ["c"], ["r"]),
            oh.make_node("Conv", ["r", "w2"], ["y"], pads=[1, 1, 1, 1]),
        ],
        "conv",
        [oh.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["N", 3, "H", 16])],
        [oh.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", 4, "H", 16])],
        [nh.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    onnx.save(oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return write_conv(tmp_path / "net.onnx")


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Installs the stand-in."""

    def install(**faults: Any) -> Path:
        for name, value in fake_rknn.install(tmp_path / "toolkit", **faults).items():
            monkeypatch.setenv(name, value)
        return tmp_path / "toolkit"

    return install


def _net(net: Path, recipe: str = "w8a8", target: str = fake_rknn.CHIP, **changes: Any) -> BuildResult:
    fields: dict[str, Any] = {"threads": 1, "shape_sets": SETS}
    return build(BuildOptions(str(net), target, net.parent / "b", recipe, **(fields | changes)))


def _sets(*dims: tuple[int, int]) -> tuple[ShapeSet, ...]:
    return tuple(ShapeSet({"N": n, "H": h}, {"image": (n, 3, h, 16)}) for n, h in dims)


def _write_samples(folder: Path, *dims: tuple[int, int]) -> Path:
    folder.mkdir()
    random = np.random.default_rng(1)
    for index, (n, h) in enumerate(dims):
        np.savez(folder / f"{index:02}.npz", image=random.standard_normal((n, 3, h, 16), np.float32))
    return folder


def test_every_shape_is_compiled_verified_and_carried(net: Path, toolkit: Any) -> None:
    folder = toolkit()
    result = _net(net)
    assert result.passed
    asked = fake_rknn.seen(folder)
    shapes = [[1, 3, 16, 16], [2, 3, 16, 16], [4, 3, 24, 16], [1, 3, 8, 16]]
    assert asked["values"]["config"]["dynamic_input"] == [[shape] for shape in shapes]  # type: ignore[index]
    assert asked["count"] == {"calibration": 8, "inputs": 4, "inputs_1": 4, "inputs_2": 4, "inputs_3": 4}
    given = onnx.load(folder / "seen.json.onnx", load_external_data=False).graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in given] == ["N", 3, "H", 16]
    assert [line.name for line in result.report.layers] == [
        "y at N=1, H=16", "y at N=2, H=16", "y at N=4, H=24", "y at N=1, H=8",
    ]  # fmt: skip

    manifest = open_bundle(result.bundle).manifest
    assert manifest.format_version == 4
    assert manifest.graph_test is not None
    assert manifest.graph_test.shapes == 4
    assert manifest.model.config["shapes"] == [{"image": shape} for shape in shapes]
    assert manifest.engine.options["shapes"] == [
        {"inputs": {"image": shape}, "outputs": {"y": [shape[0], 4, *shape[2:]]}} for shape in shapes
    ]
    assert {"self_test_inputs", "self_test_inputs.3", "self_test_outputs.3"} <= set(manifest.files)


def test_the_worst_shape_decides(net: Path, toolkit: Any) -> None:
    toolkit(gain=0.5, from_shape=3)
    result = _net(net)
    failed = {verdict.metric: verdict.value for verdict in result.report.verdicts if not verdict.passed}
    assert failed == {"gain_error": pytest.approx(0.5, abs=1e-3)}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"target": "host"}, "host takes every size as it comes, so none is listed"),
        ({"emulate": True}, "several sizes in one file need the chip's own compiler (--emulate was given)"),
        ({"target": "ethos-u55"}, "need the chip's own compiler (needs the ethos-u toolkit, which is no part of"),
        ({"shape_sets": ({"N": 1, "H": 8}, {"N": 1, "H": 8})}, "N=1, H=8 is listed twice"),
        ({"shape_sets": ({"N": 1}, {"N": 2})}, "the size of H is not told; give one for all, or as many: --dim H=1"),
        ({"shape_sets": ({"N": 1, "W": 8}, {"N": 2, "W": 8})}, "the model has no symbolic dimension W"),
        ({"shape_sets": tuple({"N": n, "H": 8} for n in range(1, 40))}, "39 sizes in one file, at most 32"),
        ({"queries": Path("q.jsonl")}, "queries"),
    ],
)
def test_what_cannot_be_listed_is_one_line(changes: dict[str, Any], words: str, net: Path, toolkit: Any) -> None:
    toolkit()
    with pytest.raises(InputError) as caught:
        _net(net, **changes)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_models_have_no_shapes_to_list(files: Path, net: Path, toolkit: Any) -> None:
    toolkit()
    for kind in ("decoder", "encoder"):
        with pytest.raises(InputError, match="several sizes are for ONNX graphs"):
            build(BuildOptions(str(files / kind), "rk3588", net.parent / "b", "fp16", shape_sets=SETS))


def test_samples_of_the_largest_shape_calibrate_and_each_verifies(net: Path) -> None:
    shapes = _sets((1, 16), (4, 16), (1, 8))
    folder = _write_samples(net.parent / "s", (4, 16), (1, 8), (4, 16), (1, 16), (4, 16), (1, 8))
    options = BuildOptions(str(net), "rk3588", net.parent / "b", samples=folder)
    samples = gather_shape_samples(options, ir.load(net), shapes)
    assert largest(shapes) == 1
    assert [np.shape(feed["image"]) for feed in samples.calibration] == [(4, 3, 16, 16)] * 2
    assert samples.per_shape == (1, 1, 2)
    assert [[shape.fits(feed) for feed in feeds] for shape, feeds in zip(
        shapes, samples.held_out_by_shape, strict=True
    )] == [[True], [True], [True, True]]  # fmt: skip
    assert (samples.real, samples.shared, samples.drawn) == (True, False, False)


def test_samples_that_are_missing_or_of_another_shape(net: Path) -> None:
    options = BuildOptions(str(net), "rk3588", net.parent / "b", samples=_write_samples(net.parent / "s", (1, 16)))
    with pytest.raises(InputError, match=r"no sample of N=2, H=16; give a folder with one \.npz a sample"):
        gather_shape_samples(options, ir.load(net), _sets((1, 16), (2, 16)))
    with pytest.raises(InputError, match=r"sample 0 is image \[1, 3, 16, 16\], which is not listed"):
        gather_shape_samples(options, ir.load(net), _sets((1, 8), (2, 16)))


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["fp16", "w8a8"])
def test_several_shapes_through_the_real_toolkit(
    recipe: str, net: Path, rknn: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(rknn.root))
    result = _net(net, recipe, "rk3588")
    assert result.passed
    assert len(result.report.layers) == len(SETS)
    assert min(line.whole for line in result.report.layers) > 0.999
    file = read_rknn_file(open_bundle(result.bundle).files["graph"])
    assert file.graphs == len(SETS)
    assert file.inputs[0].shape == (4, 3, 24, 16)
