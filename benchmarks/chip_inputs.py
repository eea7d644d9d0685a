"""Inputs for the models of the chip benchmarks, drawn with a fixed seed: photographs of text, and sound.

No font and no picture library is at hand: the text is made of seven-segment figures, as meters and clocks show them, in
several sizes, inks and grounds, with noise. The sound is noise with, in half of the windows, a voiced tone of a
speaker's pitch with harmonics that swell and fade.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SIDE = 256
RATE_HZ = 16_000
WINDOW = 3_200

Array = npt.NDArray[np.float32]

# Which of the segments top, top right, bottom right, bottom, bottom left, top left, middle are lit for 0 to 9, A to F.
_LIT = (0x3F, 0x06, 0x5B, 0x4F, 0x66, 0x6D, 0x7D, 0x07, 0x7F, 0x6F, 0x77, 0x7C, 0x39, 0x5E, 0x79, 0x71)
# Each segment as (left, top, right, bottom) of a glyph 6 wide and 10 high, strokes of 1.
_SEGMENTS = ((1, 0, 5, 1), (5, 1, 6, 5), (5, 5, 6, 9), (1, 9, 5, 10), (0, 5, 1, 9), (0, 1, 1, 5), (1, 4.5, 5, 5.5))


def text_images(n: int, *, seed: int = 3) -> Array:
    """Pictures ``[n, 1, 3, 256, 256]`` with 3 to 8 lines of figures, scaled to -1 to 1 as the detector wants them."""
    rng = np.random.default_rng(seed)
    return np.stack([_page(rng) for _ in range(n)])[:, None].astype(np.float32)


def _page(rng: np.random.Generator) -> npt.NDArray[np.float64]:
    ground = rng.uniform(0.05, 0.95, 3)
    ink = np.clip(ground + np.where(ground < 0.5, 1, -1) * rng.uniform(0.4, 0.8, 3), 0, 1)
    page = np.broadcast_to(ground[:, None, None], (3, SIDE, SIDE)).copy()
    page += np.linspace(-0.08, 0.08, SIDE) * rng.uniform(-1, 1)
    top = int(rng.integers(8, 24))
    for _ in range(rng.integers(3, 9)):
        scale = float(rng.uniform(1.4, 3.6))
        if top + 10 * scale > SIDE - 8:
            break
        left = int(rng.integers(8, 80))
        for digit in rng.integers(0, len(_LIT), rng.integers(4, 12)):
            if left + 6 * scale > SIDE - 8:
                break
            _glyph(page, int(digit), left, top, scale, ink)
            left += round(8 * scale)
        top += round(10 * scale + rng.uniform(8, 24))
    return np.clip(page + rng.normal(0, rng.uniform(0.005, 0.04), page.shape), 0, 1) * 2 - 1


def _glyph(page: npt.NDArray[np.float64], digit: int, left: int, top: int, scale: float, ink: np.ndarray) -> None:
    for index, (x0, y0, x1, y1) in enumerate(_SEGMENTS):
        if _LIT[digit] >> index & 1:
            rows = slice(top + round(y0 * scale), top + max(round(y1 * scale), round(y0 * scale) + 1))
            columns = slice(left + round(x0 * scale), left + max(round(x1 * scale), round(x0 * scale) + 1))
            page[:, rows, columns] = ink[:, None, None]


def sounds(n: int, *, samples: int = WINDOW, seed: int = 4) -> Array:
    """Windows of sound ``[n, samples]`` at 16 kHz, -1 to 1."""
    rng = np.random.default_rng(seed)
    time_s = np.arange(samples) / RATE_HZ
    made = []
    for index in range(n):
        sound = rng.normal(0, rng.uniform(0.005, 0.05), samples)
        if index % 2 == 0:
            pitch_hz, loud = rng.uniform(90, 240), rng.uniform(0.1, 0.5)
            phase = 2 * np.pi * np.cumsum(pitch_hz * (1 + 0.03 * np.sin(2 * np.pi * 5 * time_s))) / RATE_HZ
            voice = sum(np.sin(k * phase + rng.uniform(0, 6)) / k ** rng.uniform(0.6, 1.4) for k in range(1, 16))
            sound += loud * 0.4 * voice * np.sin(np.pi * np.linspace(0.1, 0.9, samples))
        made.append(np.clip(sound, -1, 1))
    return np.stack(made).astype(np.float32)
