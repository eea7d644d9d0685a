"""Rotary embeddings with their scaling, as transformers' ``modeling_rope_utils`` computes them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from chipwise.errors import ModelFormatError, UnknownArchitectureError
from chipwise.model.config import RopeConfig
from chipwise.model.importer.fields import Fields

_Frequencies = npt.NDArray[np.float32]


def plain_frequencies(theta: float, dim: int) -> _Frequencies:
    """The dim/2 inverse frequencies ``theta ** (-2i/dim)``."""
    exponents = np.arange(0, dim, 2, dtype=np.float32) / np.float32(dim)
    return (1.0 / np.float32(theta) ** exponents).astype(np.float32)


def rope_config(
    fields: Fields,
    *,
    theta: float,
    dim: int,
    max_positions: int,
    original_positions: int | None,
    context: int,
) -> RopeConfig:
    """The rotary embedding that scaling settings (config.json's rope_scaling or rope_parameters) describe.

    Args:
        fields: The settings; none of them for a plain embedding.
        theta: Base of the frequencies.
        dim: Channels that turn.
        max_positions: Longest context the config states.
        original_positions: Context of the first training, if the config states it outside the settings.
        context: Longest context that will be used; longrope takes its long factors if it passes the original.

    Raises:
        UnknownArchitectureError: A scaling that is not supported.
        ModelFormatError: A setting is missing or malformed.
    """
    kind = fields.text("rope_type", fields.text("type", "default"))
    if kind in ("default", "dynamic"):
        # dynamic changes nothing until a context passes max_positions, which nothing here does
        return RopeConfig(theta, dim)
    if kind in ("su", "yarn") and "long_factor" in fields:  # the names of phi3's first releases
        kind = "longrope"
    original = original_positions or fields.integer("original_max_position_embeddings", max_positions)
    scalings: dict[str, Callable[[], tuple[_Frequencies, float]]] = {
        "linear": lambda: _linear(fields, theta, dim),
        "llama3": lambda: _llama3(fields, theta, dim, original),
        "yarn": lambda: _yarn(fields, theta, dim, max_positions, original),
        "longrope": lambda: _longrope(fields, theta, dim, max_positions, original, context),
    }
    if kind not in scalings:
        raise UnknownArchitectureError(
            f"rope scaling {kind!r} is not supported; supported are default, dynamic, {', '.join(scalings)}",
            where=fields.where,
        )
    try:
        with np.errstate(all="ignore"):
            frequencies, scale = scalings[kind]()
    except (ArithmeticError, ValueError) as e:
        raise _impossible(fields, kind) from e
    if not (np.isfinite(frequencies).all() and (frequencies > 0).all() and scale > 0):
        raise _impossible(fields, kind)
    return RopeConfig(theta, dim, tuple(frequencies.tolist()), scale)


def _impossible(fields: Fields, kind: str) -> ModelFormatError:
    return ModelFormatError(
        f"the {kind} scaling of the rotation gives no finite frequencies",
        where=fields.where,
        remedy="correct its settings",
    )


def longrope_positions(max_positions: int, original: int, max_context: int | None) -> int:
    """How far a longrope model may go: the short factors hold up to the original context, the long ones beyond."""
    return max_positions if max_context is not None and max_context > original else original


def _linear(fields: Fields, theta: float, dim: int) -> tuple[_Frequencies, float]:
    return plain_frequencies(theta, dim) / np.float32(fields.number("factor")), 1.0


def _llama3(fields: Fields, theta: float, dim: int, original: int) -> tuple[_Frequencies, float]:
    frequencies = plain_frequencies(theta, dim)
    factor = np.float32(fields.number("factor"))
    low, high = fields.number("low_freq_factor"), fields.number("high_freq_factor")
    wavelengths = 2 * math.pi / frequencies
    smooth = (original / wavelengths - low) / (high - low)
    blended = (1 - smooth) * frequencies / factor + smooth * frequencies
    scaled = np.where(wavelengths > original / low, frequencies / factor, blended)
    return np.where(wavelengths < original / high, frequencies, scaled).astype(np.float32), 1.0


def _longrope(
    fields: Fields, theta: float, dim: int, max_positions: int, original: int, context: int
) -> tuple[_Frequencies, float]:
    stretch = fields.number("factor", max_positions / original)
    default_scale = math.sqrt(1 + math.log(stretch) / math.log(original)) if stretch > 1 else 1.0
    name = "long_factor" if context > original else "short_factor"
    factors = np.array(fields.numbers(name, dim // 2), np.float32)
    return plain_frequencies(theta, dim) / factors, fields.number("attention_factor", default_scale)


def _yarn(fields: Fields, theta: float, dim: int, max_positions: int, original: int) -> tuple[_Frequencies, float]:
    factor = fields.number("factor", max_positions / original)
    extrapolated = plain_frequencies(theta, dim)
    interpolated = extrapolated / np.float32(factor)
    low = _turns_at(fields.number("beta_fast", 32), theta, dim, original)
    high = _turns_at(fields.number("beta_slow", 1), theta, dim, original)
    if fields.flag("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    span = high - low if high != low else 0.001
    ramp = np.clip((np.arange(dim // 2, dtype=np.float32) - low) / span, 0, 1)
    blended = interpolated * ramp + extrapolated * (1 - ramp)
    return blended.astype(np.float32), fields.number("attention_factor", _yarn_scale(fields, factor))


def _turns_at(turns: float, theta: float, dim: int, original: int) -> float:
    """The channel pair that makes ``turns`` turns over the original context."""
    return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))


def _yarn_scale(fields: Fields, factor: float) -> float:
    def scale(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0

    above, below = fields.number("mscale", 0), fields.number("mscale_all_dim", 0)
    return scale(above) / scale(below) if above and below else scale(1.0)
