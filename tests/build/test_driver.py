"""What is said before long work starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.build import BuildOptions, build
from chipwise.build.steps import SilentListener
from chipwise.errors import InputError


class Started(SilentListener):
    def __init__(self) -> None:
        self.names: list[str] = []

    def started(self, name: str) -> None:
        self.names.append(name)


@pytest.mark.parametrize(
    ("model", "name", "others"),
    [("decoder", "output_cosine", "kl_mean_nats"), ("net.onnx", "kl_mean_nats", "output_cosine")],
)
def test_a_threshold_that_does_not_exist(model: str, name: str, others: str, files: Path, tmp_path: Path) -> None:
    started = Started()
    with pytest.raises(InputError, match=f"no threshold named '{name}'; there are {others}, "):
        build(BuildOptions(str(files / model), "host", tmp_path / "b", gate={name: 1.0}), started)
    assert started.names == ["read"]
    assert list(tmp_path.iterdir()) == []
