from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from chipwise.build import BuildOptions, build
from chipwise.build.audio_settings import read_audio_settings
from chipwise.bundle import open_bundle
from chipwise.errors import InputError
from chipwise.serve.models.served_graph import open_served_graph

INPUTS: dict[str, list[int | str]] = {"sound": ["batch", 160], "state": [2, 1, 128, 3]}
SETTINGS = {"sound": {"sample_rate_hz": 16000, "normalize": "peak", "long": "crop"}}


def written(folder: Path, content: Any) -> Path:
    path = folder / "audio.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def write_listener(path: Path) -> None:
    """A graph of one product that takes 160 samples."""
    weight = np.random.default_rng(3).normal(size=(160, 4)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["sound", "w"], ["y"])],
        "listener",
        [helper.make_tensor_value_info("sound", TensorProto.FLOAT, [1, 160])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def test_a_graph_is_served_with_the_settings_it_was_built_with(tmp_path: Path) -> None:
    write_listener(tmp_path / "listener.onnx")
    options = BuildOptions(
        str(tmp_path / "listener.onnx"), "host", tmp_path / "b", "fp32", threads=1, audio=written(tmp_path, SETTINGS)
    )
    bundle = open_bundle(build(options).bundle)
    assert bundle.manifest.model.config["audio"] == SETTINGS
    served = open_served_graph(bundle, threads=1)
    assert (served.audio["sound"].sample_rate_hz, served.audio["sound"].long) == (16_000, "crop")
    served.session.close()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "Invalid JSON"),
        ({"sound": {}}, "sound.sample_rate_hz: Field required"),
        ({"sound": {"sample_rate_hz": 16000, "loud": 1}}, "sound.loud: Extra inputs"),
        ({"voice": {"sample_rate_hz": 16000}}, "'voice' is no input that takes recordings; there are sound"),
        ({"state": {"sample_rate_hz": 16000}}, "'state' is no input that takes recordings"),
        ({"sound": {"sample_rate_hz": 16000, "samples": 80}}, "sound.samples: the input has its own length, 160"),
    ],
)
def test_settings_that_do_not_fit_are_refused(content: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        read_audio_settings(written(tmp_path, content), INPUTS)


def test_a_language_model_takes_no_recordings(files: Path, tmp_path: Path) -> None:
    options = BuildOptions(str(files / "decoder"), "host", tmp_path / "b", "fp32", audio=written(tmp_path, SETTINGS))
    with pytest.raises(InputError, match="takes no recordings"):
        build(options)
