"""Scaled rotary embeddings: by hand, and (slow) against transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chipwise.errors import ModelFormatError
from chipwise.model.importer.fields import Fields
from chipwise.model.importer.rope import plain_frequencies, rope_config

SETTINGS: list[dict[str, Any]] = [
    {"rope_type": "linear", "factor": 4.0},
    {
        "rope_type": "llama3",
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
    {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 4096, "beta_fast": 64, "truncate": False},
    {
        "rope_type": "yarn",
        "factor": 40.0,
        "original_max_position_embeddings": 4096,
        "mscale": 1.0,
        "mscale_all_dim": 0.7,
    },
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096, "attention_factor": 1.25},
    {
        "rope_type": "longrope",
        "original_max_position_embeddings": 4096,
        "short_factor": [1.0 + i / 100 for i in range(32)],
        "long_factor": [1.0 + i for i in range(32)],
    },
]


def scaled(settings: dict[str, Any], context: int = 4096, theta: float = 500_000.0) -> tuple[np.ndarray, float]:
    rope = rope_config(
        Fields(settings, "test"),
        theta=theta,
        dim=64,
        max_positions=131072,
        original_positions=None,
        context=context,
    )
    assert rope.inv_freq is not None
    return np.array(rope.inv_freq), rope.scale


def test_linear_divides_every_frequency() -> None:
    frequencies, scale = scaled(SETTINGS[0])
    assert frequencies == pytest.approx(plain_frequencies(500_000.0, 64) / 4)
    assert scale == 1.0


def test_llama3_keeps_fast_channels_and_slows_slow_ones() -> None:
    frequencies, _ = scaled(SETTINGS[1])
    plain = plain_frequencies(500_000.0, 64)
    turns = 8192 * plain / (2 * np.pi)
    assert frequencies[turns > 4] == pytest.approx(plain[turns > 4])
    assert frequencies[turns < 1] == pytest.approx(plain[turns < 1] / 32)
    between = (turns > 1) & (turns < 4)
    assert between.any()
    assert np.all(frequencies[between] < plain[between])
    assert np.all(frequencies[between] > plain[between] / 32)


def test_yarn_by_its_ends() -> None:
    frequencies, scale = scaled(SETTINGS[2])
    plain = plain_frequencies(500_000.0, 64)
    assert frequencies[0] == pytest.approx(plain[0])
    assert frequencies[-1] == pytest.approx(plain[-1] / 4)
    assert scale == pytest.approx(0.1 * np.log(4) + 1)


@pytest.mark.parametrize(
    "broken",
    [
        SETTINGS[0] | {"factor": 0.0},
        SETTINGS[0] | {"factor": -4.0},
        SETTINGS[1] | {"low_freq_factor": 0.0},
        SETTINGS[2] | {"factor": 0.0},
        SETTINGS[2] | {"attention_factor": 0.0},
        SETTINGS[2] | {"beta_fast": 0.0},
        SETTINGS[6] | {"short_factor": [0.0] * 32},
        SETTINGS[6] | {"original_max_position_embeddings": 1, "long_factor": [1.0] * 32},
    ],
)
def test_settings_that_give_no_rotation(broken: dict[str, Any]) -> None:
    with pytest.raises(ModelFormatError, match="no finite frequencies; correct its settings"):
        scaled(broken)


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: f"{s['rope_type']}-{len(s)}")
@pytest.mark.parametrize("context", [4096, 4097])
def test_as_transformers(settings: dict[str, Any], context: int) -> None:
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = LlamaConfig(
        hidden_size=256,
        num_attention_heads=4,
        max_position_embeddings=131072,
        rope_parameters={"rope_theta": 500_000.0, **settings},
    )
    wanted, wanted_scale = ROPE_INIT_FUNCTIONS[settings["rope_type"]](config, "cpu", seq_len=context)
    frequencies, scale = scaled(settings, context)
    assert frequencies == pytest.approx(wanted.numpy(), rel=2e-6)
    assert scale == pytest.approx(wanted_scale)
