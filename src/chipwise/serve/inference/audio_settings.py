"""AudioSettings: how a recording becomes an input, as the bundle or a request says."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from chipwise.serve.inference.factor import Positive

MAX_DURATION_S = 600.0
_MAX_RATE_HZ = 192_000
_MAX_SAMPLES = int(MAX_DURATION_S * _MAX_RATE_HZ)
Finite = Annotated[float, Field(allow_inf_nan=False)]


class AudioSettings(BaseModel):
    """How a recording becomes an input: one channel at the model's rate, -1 to 1, normalized, times ``scale``.

    Attributes:
        sample_rate_hz: The rate the model was trained at.
        mono: What becomes of several channels: their mean (``mix``), or the ``first``.
        normalize: ``peak`` to a largest magnitude of 1; ``standard`` to mean 0 and variance 1; ``none``.
        scale: None for 1 where the input takes fractions, 32768 where it takes whole numbers.
        samples: Its length in samples, where the input leaves it free; None for its own, or the longest of several.
        short: What becomes of one that is too short: zeros behind it (``pad``), or an error (``refuse``).
        long: The same of one that is too long: its beginning (``crop``), or an error (``refuse``).
        max_s: The longest that is decoded, in seconds.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    sample_rate_hz: Annotated[int, Field(ge=1000, le=_MAX_RATE_HZ)]
    mono: Literal["mix", "first"] = "mix"
    normalize: Literal["none", "peak", "standard"] = "none"
    scale: Positive | None = None
    samples: Annotated[int, Field(ge=1, le=_MAX_SAMPLES)] | None = None
    short: Literal["pad", "refuse"] = "pad"
    long: Literal["crop", "refuse"] = "refuse"
    max_s: Annotated[Finite, Field(gt=0, le=MAX_DURATION_S)] = 60.0
