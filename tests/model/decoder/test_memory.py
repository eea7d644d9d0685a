"""What writing a model of 300 MB costs in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16
from safetensors.numpy import save_file

from chipwise.model.importer.canonical_names import decoder_shapes
from chipwise.model.importer.fields import Fields
from chipwise.model.importer.hf_decoder_config import decoder_config

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
LIMIT = 1.3


def _folder(folder: Path, dtype: type, *, tied: bool) -> Path:
    """A llama of 75 million parameters, half of them or more in the embedding, as small models have it."""
    settings = {
        "model_type": "llama",
        "vocab_size": 60000 if tied else 49152,
        "hidden_size": 640,
        "intermediate_size": 1536,
        "num_hidden_layers": 9 if tied else 3,
        "num_attention_heads": 10,
        "num_key_value_heads": 5,
        "max_position_embeddings": 512,
        "tie_word_embeddings": tied,
    }
    config = decoder_config(Fields(settings, "config.json"), "llama")
    random = np.random.default_rng(0)
    weights = {
        name: (random.standard_normal(shape, np.float32) * 0.02).astype(dtype)
        for name, shape in decoder_shapes(config).items()
    }
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(settings))
    save_file(weights, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("form", ["fused", "portable"])
@pytest.mark.parametrize(("dtype", "tied"), [(np.float32, False), (bfloat16, True)])
def test_peak_memory(dtype: type, tied: bool, form: str, tmp_path: Path) -> None:
    folder = _folder(tmp_path / "model", dtype, tied=tied)
    out = tmp_path / "out"
    out.mkdir()
    command = [sys.executable, "-m", "tests.model.decoder.peak_memory", str(folder), str(out), form]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    figures = json.loads(done.stdout)
    assert figures["written"] > 280e6
    assert 0.2 * figures["written"] < figures["anon"] < LIMIT * figures["written"], figures
    print(figures)
