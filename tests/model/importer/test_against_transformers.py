"""Whole models saved by transformers, and SmolLM2's GGUF as transformers reads it (slow: both import torch)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipwise.model.config import DecoderConfig
from chipwise.model.importer import load_model
from chipwise.model.importer.gguf_file import load_gguf

pytestmark = pytest.mark.slow

SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
LONGROPE = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "rope_theta": 10000.0}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {"num_key_value_heads": 2, "tie_word_embeddings": True}),
    "qwen2": ("Qwen2Config", {"num_key_value_heads": 2}),
    "qwen2-sliding": (
        "Qwen2Config",
        {"num_key_value_heads": 2, "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
    ),
    "qwen3": ("Qwen3Config", {"num_key_value_heads": 2, "head_dim": 16}),
    "gemma3": ("Gemma3TextConfig", {"num_key_value_heads": 2, "head_dim": 16, "sliding_window": 8}),
    "phi3": ("Phi3Config", {"pad_token_id": 0, "eos_token_id": 1, "sliding_window": 8}),
    "phi3-long": (
        "Phi3Config",
        {
            "pad_token_id": 0,
            "eos_token_id": 1,
            "max_position_embeddings": 256,
            "original_max_position_embeddings": 64,
            "rope_parameters": LONGROPE,
        },
    ),
    "bert": ("BertConfig", {}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_saved_models_are_read_back(name: str, dtype: str, tmp_path: Path) -> None:
    import torch
    import transformers

    config_class, more = CASES[name]
    config = getattr(transformers, config_class)(**(SIZES | more))
    torch.manual_seed(0)
    auto = transformers.AutoModel if name == "bert" else transformers.AutoModelForCausalLM
    model = auto.from_config(config).to(getattr(torch, dtype))
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    ours = load_model(tmp_path)
    assert ours.weights is not None
    state = {key: value.float().numpy() for key, value in model.state_dict().items()}
    packed = {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"}
    for weight in ours.weights.names():
        loaded = ours.weights.load(weight)
        if weight in state:
            shift = 1 if name == "gemma3" and weight.endswith("norm.weight") else 0
            assert np.array_equal(loaded, state[weight] + shift), weight
        else:
            assert weight.split(".")[-2] in packed
            assert name.startswith("phi3")
    _same_config(ours.config, config, name)


def _same_config(ours: Any, theirs: Any, name: str) -> None:
    if not isinstance(ours, DecoderConfig):
        assert ours.max_positions == theirs.max_position_embeddings
        return
    assert ours.tied_embeddings == theirs.tie_word_embeddings
    assert ours.norm_eps == theirs.rms_norm_eps
    types = getattr(theirs, "layer_types", None)
    slides = [kind == "sliding_attention" for kind in types] if types else [theirs.__dict__.get("sliding_window")] * 2
    assert [ours.slides(layer) for layer in range(2)] == [bool(slide) for slide in slides]
    if name == "phi3-long":
        assert ours.max_positions == 64
        assert ours.rope.inv_freq is not None


def test_smollm2_answers_in_transformers_with_the_weights_read_here(smollm2_gguf: Path) -> None:
    import torch
    import transformers

    ours = load_gguf(smollm2_gguf)
    config = ours.config
    assert isinstance(config, DecoderConfig)
    assert ours.weights is not None
    assert ours.tokenizer is not None
    assert ours.chat_template is not None
    theirs = transformers.LlamaConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.ffn_size,
        num_hidden_layers=config.n_layers,
        num_attention_heads=config.n_heads,
        num_key_value_heads=config.n_kv_heads,
        rms_norm_eps=config.norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope.theta},
        tie_word_embeddings=config.tied_embeddings,
    )
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(theirs)
    state = {name: torch.from_numpy(ours.weights.load(name)) for name in ours.weights.names()}
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True, assign=True)
    model.model.rotary_emb = type(model.model.rotary_emb)(theirs)
    prompt = ours.chat_template.render([{"role": "user", "content": "What is the capital of France?"}])
    ids = ours.tokenizer.encode(prompt, add_bos=False)
    with torch.no_grad():
        for _ in range(12):
            logits = model(torch.tensor([ids])).logits[0, -1]
            ids.append(int(logits.argmax()))
            if ids[-1] in ours.tokenizer.special.eos_ids:
                break
    assert "Paris" in ours.tokenizer.decode(ids)
