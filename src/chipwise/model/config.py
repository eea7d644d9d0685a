"""DecoderConfig and EncoderConfig: the architecture of a model, whatever file it came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Activation = Literal["silu", "gelu", "gelu_tanh"]


@dataclass(frozen=True)
class RopeConfig:
    """Rotary position embedding (half-split layout: channel i turns with channel i + dim/2).

    Attributes:
        theta: Base of the frequencies.
        dim: Channels of a head that are turned; the rest pass unchanged.
        inv_freq: The dim/2 inverse frequencies after any scaling (llama3, linear, longrope, yarn), or None
            for the plain ``theta ** (-2i/dim)``.
        scale: Factor on cos and sin (attention factor of yarn and longrope).
    """

    theta: float
    dim: int
    inv_freq: tuple[float, ...] | None = None
    scale: float = 1.0


@dataclass(frozen=True)
class DecoderConfig:
    """A decoder-only language model.

    Attributes:
        arch: ``llama``, ``qwen2``, ``qwen3``, ``gemma3`` or ``phi3``.
        vocab_size: Rows of the embedding.
        hidden_size: Width of the residual stream.
        ffn_size: Width of the feed-forward part.
        n_layers: Number of layers.
        n_heads: Query heads.
        n_kv_heads: Key and value heads.
        head_dim: Channels of a head.
        max_positions: Longest context the model was trained for, in tokens.
        norm_eps: Epsilon of every RMS norm.
        rope: Rotary embedding of full-attention layers.
        rope_local: Rotary embedding of sliding-window layers, if another.
        sliding_window: Tokens a sliding layer looks back (itself included), None if no layer slides.
        sliding_layers: Whether each layer slides; empty if none does.
        tied_embeddings: Whether the output layer is the embedding.
        qkv_bias: Whether q, k, v have a bias.
        qk_norm: Whether q and k pass an RMS norm a head.
        post_norms: Whether attention's and feed-forward's outputs pass a norm of their own (gemma3).
        embed_scale: Factor on embeddings.
        attn_scale: Factor on the scores; the default is ``head_dim ** -0.5``.
        activation: Activation of the gate.
        logit_softcap: ``cap * tanh(logits / cap)`` on the output, None for none.
        norm_plus_one: Whether the FILE stores norm weights less one (gemma3 in safetensors). Weight
            sources add the one back when they load, so graph writers never see it.
    """

    arch: str
    vocab_size: int
    hidden_size: int
    ffn_size: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    max_positions: int
    norm_eps: float
    rope: RopeConfig
    rope_local: RopeConfig | None = None
    sliding_window: int | None = None
    sliding_layers: tuple[bool, ...] = ()
    tied_embeddings: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False
    post_norms: bool = False
    embed_scale: float = 1.0
    attn_scale: float | None = None
    activation: Activation = "silu"
    logit_softcap: float | None = None
    norm_plus_one: bool = False

    @property
    def score_scale(self) -> float:
        """The factor on attention scores."""
        return self.attn_scale if self.attn_scale is not None else float(self.head_dim**-0.5)

    def slides(self, layer: int) -> bool:
        """Whether a layer looks back only ``sliding_window`` tokens."""
        return bool(self.sliding_layers) and self.sliding_layers[layer]

    def kv_bytes(self, tokens: int, bytes_per_value: int = 4) -> int:
        """Memory of the KV cache of one sequence of ``tokens`` tokens, in bytes."""
        return 2 * self.n_layers * self.n_kv_heads * self.head_dim * tokens * bytes_per_value

    def to_dict(self) -> dict[str, Any]:
        """What a server needs of it, for a manifest."""
        return {
            "arch": self.arch,
            "vocab_size": self.vocab_size,
            "n_layers": self.n_layers,
            "n_kv_heads": self.n_kv_heads,
            "head_dim": self.head_dim,
            "max_positions": self.max_positions,
            "hidden_size": self.hidden_size,
        }


@dataclass(frozen=True)
class EncoderConfig:
    """A bidirectional encoder (bert).

    Attributes:
        arch: ``bert``.
        vocab_size: Rows of the word embedding.
        hidden_size: Width of the residual stream.
        ffn_size: Width of the feed-forward part.
        n_layers: Number of layers.
        n_heads: Attention heads.
        max_positions: Rows of the position embedding.
        type_vocab_size: Rows of the segment embedding.
        norm_eps: Epsilon of every LayerNorm.
        activation: Activation of the feed-forward part.
        extra: Pooling and other settings found beside the weights.
    """

    arch: str
    vocab_size: int
    hidden_size: int
    ffn_size: int
    n_layers: int
    n_heads: int
    max_positions: int
    type_vocab_size: int
    norm_eps: float
    activation: Activation = "gelu"
    extra: dict[str, Any] = field(default_factory=dict)
