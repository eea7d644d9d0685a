from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chipwise.build import BuildOptions, build
from chipwise.build.image_settings import read_image_settings
from chipwise.bundle import open_bundle
from chipwise.errors import InputError
from chipwise.serve.models.served_graph import open_served_graph

INPUTS: dict[str, list[int | str]] = {"image": ["batch", 3, 16, 16], "scale": [2]}
SETTINGS = {"image": {"fit": "letterbox", "mean": [0.5], "std": [0.1, 0.2, 0.3]}}


def written(folder: Path, content: Any) -> Path:
    path = folder / "images.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_graph_is_served_with_the_settings_it_was_built_with(files: Path, tmp_path: Path) -> None:
    options = BuildOptions(
        str(files / "net.onnx"), "host", tmp_path / "b", "fp32", samples=files / "images.npz", threads=1,
        images=written(tmp_path, SETTINGS),
    )  # fmt: skip
    bundle = open_bundle(build(options).bundle)
    assert bundle.manifest.model.config["images"] == SETTINGS
    served = open_served_graph(bundle, threads=1)
    assert served.images["image"].std == [0.1, 0.2, 0.3]
    served.session.close()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "Invalid JSON"),
        ({"image": {"sharpen": 1}}, "image.sharpen: Extra inputs"),
        ({"picture": {}}, "'picture' is no input that takes pictures; there are image"),
        ({"scale": {}}, "'scale' is no input that takes pictures"),
        ({"image": {"mean": [1.0, 2.0]}}, "image.mean: needs 1 number or 3"),
    ],
)
def test_settings_that_do_not_fit_are_refused(content: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        read_image_settings(written(tmp_path, content), INPUTS)


def test_a_language_model_takes_no_pictures(files: Path, tmp_path: Path) -> None:
    options = BuildOptions(str(files / "decoder"), "host", tmp_path / "b", "fp32", images=written(tmp_path, SETTINGS))
    with pytest.raises(InputError, match="takes no pictures"):
        build(options)
