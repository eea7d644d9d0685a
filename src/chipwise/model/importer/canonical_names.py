"""The weights an architecture consists of: canonical name and shape, from its config alone."""

from __future__ import annotations

from chipwise.model.config import DecoderConfig, EncoderConfig

Shapes = dict[str, tuple[int, ...]]


def decoder_shapes(config: DecoderConfig) -> Shapes:
    """Every weight of a decoder with its shape. ``lm_head.weight`` is left out where it is the embedding."""
    hidden = config.hidden_size
    shapes: Shapes = {"model.embed_tokens.weight": (config.vocab_size, hidden)}
    for layer in range(config.n_layers):
        shapes |= {f"model.layers.{layer}.{name}": shape for name, shape in _layer_shapes(config).items()}
    shapes["model.norm.weight"] = (hidden,)
    if not config.tied_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, hidden)
    return shapes


def _layer_shapes(config: DecoderConfig) -> Shapes:
    hidden, ffn = config.hidden_size, config.ffn_size
    queries, keys = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    shapes: Shapes = {
        "input_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (queries, hidden),
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
        "post_attention_layernorm.weight": (hidden,),
        "mlp.gate_proj.weight": (ffn, hidden),
        "mlp.up_proj.weight": (ffn, hidden),
        "mlp.down_proj.weight": (hidden, ffn),
    }
    if config.qkv_bias:
        shapes |= {
            "self_attn.q_proj.bias": (queries,),
            "self_attn.k_proj.bias": (keys,),
            "self_attn.v_proj.bias": (keys,),
        }
    if config.qk_norm:
        shapes |= {
            "self_attn.q_norm.weight": (config.head_dim,),
            "self_attn.k_norm.weight": (config.head_dim,),
        }
    if config.post_norms:
        shapes |= {
            "pre_feedforward_layernorm.weight": (hidden,),
            "post_feedforward_layernorm.weight": (hidden,),
        }
    return shapes


def encoder_shapes(config: EncoderConfig) -> Shapes:
    """Every weight of an encoder with its shape (the pooler, which not every file has, is left out)."""
    hidden = config.hidden_size
    shapes: Shapes = {
        "embeddings.word_embeddings.weight": (config.vocab_size, hidden),
        "embeddings.position_embeddings.weight": (config.max_positions, hidden),
        "embeddings.token_type_embeddings.weight": (config.type_vocab_size, hidden),
        "embeddings.LayerNorm.weight": (hidden,),
        "embeddings.LayerNorm.bias": (hidden,),
    }
    linears = {
        "attention.self.query": (hidden, hidden),
        "attention.self.key": (hidden, hidden),
        "attention.self.value": (hidden, hidden),
        "attention.output.dense": (hidden, hidden),
        "attention.output.LayerNorm": (hidden,),
        "intermediate.dense": (config.ffn_size, hidden),
        "output.dense": (hidden, config.ffn_size),
        "output.LayerNorm": (hidden,),
    }
    for layer in range(config.n_layers):
        for name, shape in linears.items():
            shapes[f"encoder.layer.{layer}.{name}.weight"] = shape
            shapes[f"encoder.layer.{layer}.{name}.bias"] = shape[:1]
    return shapes
