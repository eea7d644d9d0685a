"""config.json to DecoderConfig: both generations of field names, every architecture, every refusal."""

from __future__ import annotations

from typing import Any

import pytest

from chipwise.errors import ModelFormatError, UnknownArchitectureError
from chipwise.model.config import DecoderConfig
from chipwise.model.importer.fields import Fields
from chipwise.model.importer.hf_decoder_config import decoder_config
from tests.model.importer.small_models import GEMMA3, LLAMA, PHI3, QWEN2, QWEN3


def read(config: dict[str, Any], max_context: int | None = None) -> DecoderConfig:
    return decoder_config(Fields(config, "config.json"), config["model_type"], max_context)


def without(config: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in names}


def test_llama() -> None:
    config = read(LLAMA)
    assert config == DecoderConfig(
        arch="llama",
        vocab_size=40,
        hidden_size=32,
        ffn_size=64,
        n_layers=2,
        n_heads=4,
        n_kv_heads=2,
        head_dim=8,
        max_positions=128,
        norm_eps=1e-5,
        rope=config.rope,
        tied_embeddings=True,
    )
    assert (config.rope.theta, config.rope.dim, config.rope.inv_freq, config.rope.scale) == (10000.0, 8, None, 1.0)
    assert config.score_scale == 8**-0.5


def test_what_sets_the_architectures_apart() -> None:
    assert read(QWEN2).qkv_bias
    assert not read(QWEN2).qk_norm
    assert read(QWEN3).qk_norm
    assert not read(QWEN3).qkv_bias
    gemma = read(GEMMA3)
    assert gemma.arch == "gemma3"
    assert (gemma.post_norms, gemma.qk_norm, gemma.norm_plus_one) == (True, True, True)
    assert (gemma.embed_scale, gemma.attn_scale, gemma.activation) == (32**0.5, 0.25, "gelu_tanh")
    assert (gemma.rope.theta, gemma.rope_local.theta if gemma.rope_local else 0) == (1e6, 1e4)


def test_heads_without_groups_and_without_a_size_of_their_own() -> None:
    config = read(without(LLAMA, "num_key_value_heads"))
    assert (config.n_kv_heads, config.head_dim) == (4, 8)
    assert read({**LLAMA, "head_dim": None}).head_dim == 8


def test_a_small_gemma_states_only_what_differs() -> None:
    config = read({"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34, "sliding_window": 1024})
    assert (config.vocab_size, config.n_heads, config.n_kv_heads, config.head_dim) == (262208, 8, 4, 256)
    assert (config.max_positions, config.norm_eps, config.tied_embeddings) == (131072, 1e-6, True)
    assert config.sliding_layers[:6] == (True, True, True, True, True, False)


@pytest.mark.parametrize("base", [LLAMA, QWEN2, QWEN3, PHI3], ids=lambda c: c["model_type"])
def test_fields_of_version_5_mean_the_same(base: dict[str, Any]) -> None:
    new = without(base, "rope_theta") | {
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "dtype": "bfloat16",
    }
    assert read(new) == read(base)


def test_fields_of_version_5_mean_the_same_for_gemma() -> None:
    scaled = GEMMA3 | {"rope_scaling": {"rope_type": "linear", "factor": 8.0}, "num_hidden_layers": 7}
    new = without(scaled, "rope_theta", "rope_scaling") | {
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"] + ["sliding_attention"],
    }
    assert read(new) == read(scaled)
    assert read(new).rope.inv_freq is not None


@pytest.mark.parametrize(
    ("config", "window", "slides"),
    [
        (GEMMA3, 8, (True, True)),
        (GEMMA3 | {"sliding_window": 4096}, 4096, (True, True)),  # keeps the other rotation of sliding layers
        (GEMMA3 | {"sliding_window_pattern": 2}, 8, (True, False)),
        (QWEN2 | {"sliding_window": 8}, None, ()),
        (QWEN2 | {"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 1}, 8, (False, True)),
        (QWEN2 | {"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 2}, None, ()),
        (QWEN3 | {"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 0}, 8, (True, True)),
        (PHI3 | {"sliding_window": 8}, 8, (True, True)),
        (PHI3 | {"sliding_window": 4096}, None, ()),
        (PHI3 | {"sliding_window": None}, None, ()),
        (LLAMA, None, ()),
    ],
)
def test_sliding_layers(config: dict[str, Any], window: int | None, slides: tuple[bool, ...]) -> None:
    got = read(config)
    assert (got.sliding_window, got.sliding_layers) == (window, slides)


def test_part_of_a_head_turns() -> None:
    assert read(PHI3 | {"partial_rotary_factor": 0.75}).rope.dim == 6
    assert read(PHI3 | {"rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 5.0}}).rope.dim == 4


LONGROPE = PHI3 | {
    "max_position_embeddings": 512,
    "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0, 3.0, 4.0, 5.0]},
}


def test_longrope_takes_the_factors_of_the_context_it_will_see() -> None:
    short = read(LONGROPE)
    assert short.max_positions == 128
    assert short.rope.inv_freq == pytest.approx([1.0, 0.1, 0.01, 0.001])
    assert read(LONGROPE, max_context=128) == short
    long = read(LONGROPE, max_context=129)
    assert long.max_positions == 512
    assert long.rope.inv_freq == pytest.approx([1 / 2, 0.1 / 3, 0.01 / 4, 0.001 / 5])
    # sqrt(1 + ln(512 / 128) / ln(128)), with either set of factors
    assert short.rope.scale == long.rope.scale == pytest.approx(1.1338934)


@pytest.mark.parametrize("kind", ["su", "yarn"])
def test_older_names_of_phi3s_scaling(kind: str) -> None:
    named = LONGROPE | {"rope_scaling": LONGROPE["rope_scaling"] | {"type": kind}}
    assert read(named) == read(LONGROPE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attention_bias": True}, "attention_bias is True: a bias on the attention's output"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping"),
        ({"use_bidirectional_attention": True}, "looks ahead"),
        ({"num_local_experts": 8}, "mixture of experts"),
        ({"quantization_config": {"quant_method": "gptq"}}, r"quantized already \(gptq\); use the model"),
        ({"hidden_act": "relu"}, "hidden_act is 'relu'; supported are silu"),
        ({"rope_scaling": {"rope_type": "spiral", "factor": 2.0}}, "'spiral' is not supported.*llama3"),
    ],
)
def test_what_would_change_the_answers_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UnknownArchitectureError, match=message):
        read(LLAMA | change)


def test_scaled_sliding_layers_are_refused() -> None:
    scaled = {"full_attention": {}, "sliding_attention": {"rope_type": "linear", "factor": 2.0}}
    with pytest.raises(UnknownArchitectureError, match="sliding layers"):
        read(GEMMA3 | {"rope_parameters": scaled})


@pytest.mark.parametrize(
    "harmless",
    [
        {"attention_bias": False, "mlp_bias": False},
        {"pretraining_tp": 4},
        {"rope_scaling": None, "quantization_config": None},
        {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}},
        {"final_logit_softcapping": None, "attn_logit_softcapping": None},
    ],
)
def test_what_changes_nothing_is_taken(harmless: dict[str, Any]) -> None:
    assert read(LLAMA | harmless) == read(LLAMA)


def test_capped_logits() -> None:
    assert read(GEMMA3 | {"final_logit_softcapping": 30.0}).logit_softcap == 30.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"hidden_size": "32"}, "hidden_size is '32', expected a whole number"),
        ({"hidden_size": 0}, "hidden_size is '0'"),
        ({"hidden_size": True}, "hidden_size"),
        ({"num_hidden_layers": 2.5}, "num_hidden_layers"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings is 'yes', expected true or false"),
        ({"rope_scaling": [1]}, "rope_scaling"),
        ({"rope_scaling": {"rope_type": "linear"}}, "rope_scaling: factor is missing"),
        ({"rope_scaling": {"rope_type": 3}}, "rope_type"),
        ({"num_attention_heads": 3}, "3 query heads cannot share 2"),
        ({"num_attention_heads": 64}, "1 of 1 channels of a head cannot turn"),
        ({"head_dim": 7}, "7 of 7 channels"),
        ({"partial_rotary_factor": 1.5}, "12 of 8 channels"),
        ({"rope_theta": 0.0}, "base is 0.0"),
    ],
)
def test_malformed_settings_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelFormatError, match=message) as caught:
        read(LLAMA | change)
    assert str(caught.value).startswith("config.json")


@pytest.mark.parametrize("types", [["full_attention"], ["full_attention", "linear_attention"], "full", [[], {}]])
def test_layer_types_that_cannot_be(types: Any) -> None:
    with pytest.raises(ModelFormatError, match="layer_types"):
        read(QWEN3 | {"use_sliding_window": True, "layer_types": types})


def test_longrope_factors_of_another_length() -> None:
    scaling = LONGROPE["rope_scaling"] | {"short_factor": [1.0] * 3}
    with pytest.raises(ModelFormatError, match=r"short_factor is .* expected a list of 4 numbers"):
        read(LONGROPE | {"rope_scaling": scaling})
