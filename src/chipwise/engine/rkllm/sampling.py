"""RkllmSampling: how the runtime chooses a token."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from chipwise.engine.rkllm.structs import SamplingParam
from chipwise.errors import InputError


@dataclass(frozen=True)
class RkllmSampling:
    """Sampling; the likeliest token unless told otherwise.

    The runtime's own defaults are others (top_k 40, top_p 0.9, temperature 0.8, repeat_penalty 1.1), so all are set.

    Attributes:
        top_k: How many of the likeliest tokens may be chosen.
        top_p: The share of probability they must hold.
        temperature: What logits are divided by.
        repeat_penalty: What makes repeated tokens less likely; 1 for nothing.
        frequency_penalty: What makes frequent tokens less likely; 0 for nothing.
        presence_penalty: What makes tokens of the input less likely; 0 for nothing.
    """

    top_k: int = 1
    top_p: float = 1.0
    temperature: float = 1.0
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing.

        Raises:
            InputError: One is no number, or out of its range.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
                raise InputError(f"{field.name} is {value!r}, not a number", where="sampling")
        if self.top_k < 1 or not 0 < self.top_p <= 1 or self.temperature <= 0:
            raise InputError(
                f"top_k {self.top_k}, top_p {self.top_p}, temperature {self.temperature}",
                where="sampling",
                remedy="take top_k of at least 1, top_p above 0 and up to 1, temperature above 0; greedy is top_k 1",
            )

    def to_struct(self) -> SamplingParam:
        """The same for the runtime, without mirostat, whose other numbers are then without effect."""
        return SamplingParam(
            top_k=self.top_k,
            top_p=self.top_p,
            temperature=self.temperature,
            repeat_penalty=self.repeat_penalty,
            frequency_penalty=self.frequency_penalty,
            presence_penalty=self.presence_penalty,
            mirostat=0,
            mirostat_tau=5.0,
            mirostat_eta=0.1,
        )
