"""Rotation: a decoder whose residual stream and values are turned, so that no channel stands out; an equal model.

A few channels of a residual stream are tens of times larger than the rest, and one 8-bit scale for all channels leaves
the others few steps. An RMS norm commutes with a rotation once its weight has moved into the products that read it, so
a rotation of the stream can be folded into the weights on both sides and costs nothing when the model runs (QuaRot,
Ashkboos et al., arXiv 2404.00456). The values of a head can be turned between v_proj and o_proj in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from chipwise.model.config import DecoderConfig
from chipwise.model.decoder import names
from chipwise.model.weights import Float32Array, WeightInfo, WeightSource

Matrix = npt.NDArray[np.float64]

_SEED = 0
# What reads the residual stream through a norm, by the norm's name; what writes to it.
_READERS = {
    "self_attn.q_proj": "input_layernorm",
    "self_attn.k_proj": "input_layernorm",
    "self_attn.v_proj": "input_layernorm",
    "mlp.gate_proj": "post_attention_layernorm",
    "mlp.up_proj": "post_attention_layernorm",
}
_WRITERS = ("self_attn.o_proj", "mlp.down_proj")


def can_rotate(config: DecoderConfig) -> bool:
    """Whether a decoder's residual stream can be rotated: norms behind the products (gemma3) are in the way."""
    return not config.post_norms


def rotation(n: int, seed: int = _SEED) -> Matrix:
    """An orthogonal matrix ``[n, n]`` of which every row spreads over all channels.

    A Hadamard matrix of the largest power of two in ``n``, times a random orthogonal one for the rest, with random
    signs.
    """
    rng = np.random.default_rng(seed)
    power = n & -n
    spread = np.ones((1, 1))
    while len(spread) < power:
        spread = np.block([[spread, spread], [spread, -spread]])
    rest, upper = np.linalg.qr(rng.standard_normal((n // power, n // power)))
    signs = rng.choice([-1.0, 1.0], n)
    turned: Matrix = np.kron(spread / np.sqrt(power), rest * np.sign(np.diag(upper))) * signs[:, None]
    return turned


class RotatedWeights:
    """The weights of a decoder after rotation; a ``WeightSource`` of the same architecture with an output layer.

    Args:
        source: The weights as they are.
        config: The architecture, of which ``can_rotate`` holds.
    """

    def __init__(self, source: WeightSource, config: DecoderConfig) -> None:
        self._source, self._config = source, config
        # The output layer takes in the last norm's weight, so it is no longer the embedding.
        self.config = replace(config, tied_embeddings=False)

    def names(self) -> Iterator[str]:
        """All canonical names."""
        yield from self._source.names()
        if names.LM_HEAD not in self._source:
            yield names.LM_HEAD

    def info(self, name: str) -> WeightInfo:
        """Shape and storage of a weight; it is computed, so it is stored as float32."""
        given = self._source.info(self._stored_name(name))
        return WeightInfo(name, given.shape, "F32", 4 * int(np.prod(given.shape)))

    def load(self, name: str) -> Float32Array:
        """The weight in float32, in the rotated basis."""
        kind = name.removesuffix(".weight").removesuffix(".bias").split(".", 3)[-1]
        given = self._source.load(self._stored_name(name))
        if name == names.EMBEDDING:
            return _narrow(given @ self._stream)
        if name == names.LM_HEAD:
            return _narrow((given * self._source.load(names.FINAL_NORM)) @ self._stream)
        if name == names.FINAL_NORM or kind in _READERS.values():
            return np.ones_like(given)
        turned = given.astype(np.float64)
        if kind == "self_attn.v_proj":
            turned = _turn_heads(turned, self._head)
        if kind == "self_attn.o_proj":
            turned = _turn_heads(turned.T, self._head).T
        if turned.ndim == 1:
            return _narrow(turned)
        if kind in _READERS:
            layer = name[: name.index(kind)]
            return _narrow((turned * self._source.load(f"{layer}{_READERS[kind]}.weight")) @ self._stream)
        if kind in _WRITERS:
            return _narrow(self._stream.T @ turned)
        return given

    def load_rows(self, name: str, start: int, stop: int) -> Float32Array:
        """Rows ``start`` to ``stop`` of a matrix; of the embedding and the output layer only these are read."""
        if name == names.EMBEDDING:
            return _narrow(self._source.load_rows(name, start, stop) @ self._stream)
        if name == names.LM_HEAD:
            rows = self._source.load_rows(self._stored_name(name), start, stop)
            return _narrow((rows * self._source.load(names.FINAL_NORM)) @ self._stream)
        return self.load(name)[start:stop]

    def __contains__(self, name: object) -> bool:
        """Whether there is a weight of that name."""
        return name == names.LM_HEAD or name in self._source

    @cached_property
    def _stream(self) -> Matrix:
        return rotation(self._config.hidden_size)

    @cached_property
    def _head(self) -> Matrix:
        return rotation(self._config.head_dim, _SEED + 1)

    def _stored_name(self, name: str) -> str:
        return names.EMBEDDING if name == names.LM_HEAD and names.LM_HEAD not in self._source else name


def _turn_heads(rows: Matrix, turn: Matrix) -> Matrix:
    """Turn the rows ``[heads * head_dim, ...]`` of each head: ``turn.T @ rows``."""
    heads = rows.reshape(-1, len(turn), *rows.shape[1:])
    turned: Matrix = np.einsum("ij,hi...->hj...", turn, heads).reshape(rows.shape)
    return turned


def _narrow(values: npt.NDArray[np.float64]) -> Float32Array:
    return values.astype(np.float32)
