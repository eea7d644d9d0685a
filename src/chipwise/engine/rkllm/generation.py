"""Generation: what a run of the runtime came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chipwise.engine.rkllm.structs import PerfStat

# VmHWM, which the kernel counts in units of 1024 bytes.
_MB_BYTES = 1 << 20


@dataclass(frozen=True)
class RkllmToken:
    """One token.

    Attributes:
        id: Its number.
        text: The characters that are complete with it; empty while one is cut.
    """

    id: int
    text: str


@dataclass(frozen=True)
class RkllmFigures:
    """What the runtime says of a run.

    Attributes:
        prefill_s: Time of the prompt, in seconds.
        prefill_tokens: Tokens of the prompt that were computed.
        generate_s: Time of the answer, in seconds.
        generate_tokens: Tokens of the answer.
        memory_peak_bytes: Most memory the process has held so far.
    """

    prefill_s: float
    prefill_tokens: int
    generate_s: float
    generate_tokens: int
    memory_peak_bytes: int

    @classmethod
    def of(cls, perf: PerfStat) -> RkllmFigures | None:
        """From the runtime's structure; None where it is empty."""
        if not (perf.prefill_tokens or perf.generate_tokens or perf.memory_usage_mb):
            return None
        return cls(
            prefill_s=perf.prefill_time_ms / 1e3,
            prefill_tokens=perf.prefill_tokens,
            generate_s=perf.generate_time_ms / 1e3,
            generate_tokens=perf.generate_tokens,
            memory_peak_bytes=round(perf.memory_usage_mb * _MB_BYTES),
        )


@dataclass(frozen=True)
class Generation:
    """What a run gave.

    Attributes:
        tokens: The tokens, in order.
        text: Their text.
        outcome: ``finished``; ``paused``: ``RkllmModel.resume`` goes on; or ``aborted``.
        figures: What the runtime says of the run; None if it said nothing, as of one that was paused.
    """

    tokens: tuple[int, ...]
    text: str
    outcome: Literal["finished", "paused", "aborted"]
    figures: RkllmFigures | None = None
