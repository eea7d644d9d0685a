"""Recordings (WAV, FLAC, OGG, MP3) as inputs: decoded by libsndfile, resampled by soxr, cut or filled up."""

from __future__ import annotations

import importlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chipwise.engine.graph_session import TensorSpec
from chipwise.errors import DependencyError
from chipwise.serve.inference.audio_settings import AudioSettings
from chipwise.serve.inference.feed_buffer import FeedBuffer
from chipwise.serve.inference.tensor import bad

_FORMATS = ("WAV", "WAVEX", "RF64", "FLAC", "OGG", "MP3")
# A file says these before it is decoded.
_MAX_CHANNELS = 8
_RATES_HZ = (1000, 192_000)
# Of one recording, decoded or resampled, and of the recordings of one input: 128 MB.
_MAX_NUMBERS = 32_000_000
# Of a sum of squares: what is quieter is silence, and stays it.
_SILENCE = 1e-12
_WHOLE_SCALE = 32768.0

Samples = npt.NDArray[np.float32]
"""One channel, float32 ``[samples]``."""


@dataclass(frozen=True)
class AudioInput:
    """An input that takes recordings.

    Attributes:
        spec: The input.
        batch: How many it takes; None for any number.
        samples: How long each is; None if it is free.
    """

    spec: TensorSpec
    batch: int | None
    samples: int | None

    @classmethod
    def of(cls, spec: TensorSpec) -> AudioInput | None:
        """What an input is to recordings: ``[samples]``, ``[batch, samples]`` or ``[batch, 1, samples]``; else None."""
        shape = spec.shape
        if len(shape) == 1:
            return cls(spec, 1, shape[0])
        if len(shape) == 2 or (len(shape) == 3 and shape[1] == 1):
            return cls(spec, shape[0], shape[-1])
        return None


@dataclass(frozen=True)
class GivenAudio:
    """The recordings of a request for one input.

    Attributes:
        name: The input.
        recordings: Each as the bytes of its file.
        settings: How they become numbers.
        where: What they are called in errors.
    """

    name: str
    recordings: Sequence[bytes]
    settings: AudioSettings
    where: str

    def checked(self, spec: TensorSpec) -> GivenAudio:
        """The same, if the input takes so many recordings and settings of this kind.

        Raises:
            RequestError: It does not.
            DependencyError: There is nothing to decode them with.
        """
        target, count = AudioInput.of(spec), len(self.recordings)
        if target is None:
            raise bad(f"{self.where}.datatype", f"the input {self.name!r} is none of recordings: it takes numbers")
        if not count:
            raise bad(f"{self.where}.data", "holds no recording")
        if target.batch is not None and target.batch != count:
            raise bad(f"{self.where}.shape", f"is [{count}], the input {self.name!r} takes {target.batch} at once")
        if self.settings.samples is not None and target.samples is not None:
            raise bad(f"{self.where}.parameters.audio.samples", f"the input {self.name!r} has its own length")
        load_soundfile()
        load_soxr()
        return self

    def filled(self, buffer: FeedBuffer, spec: TensorSpec) -> npt.NDArray[Any]:
        """The array of the recordings, in the buffer.

        Raises:
            RequestError: One is no recording, or longer than the server decodes, or of a length that does not fit.
        """
        target = AudioInput.of(spec)
        if target is None:
            raise TypeError(f"{spec.name} takes no recordings")
        places = [f"{self.where}.data[{i}]" for i in range(len(self.recordings))]
        heard = [
            decoded(recording, self.settings, place) for recording, place in zip(self.recordings, places, strict=True)
        ]
        length = target.samples or self.settings.samples or max(map(len, heard))
        _require_small(length * len(heard), f"{self.where}.data")
        dtype = spec.dtype or np.dtype(np.float32)
        array = buffer.array(self.name, _shape(spec, len(heard), length), dtype)
        rows = array.reshape(len(heard), length)
        for row, samples, place in zip(rows, heard, places, strict=True):
            fitted = _fitted(samples, length, self.settings, place)
            # A client may choose a scale beyond what float16 holds.
            with np.errstate(over="ignore"):
                row[: len(fitted)] = scaled(fitted, self.settings, dtype)
            row[len(fitted) :] = 0
        return array


def load_soundfile() -> Any:
    """The module that decodes.

    Raises:
        DependencyError: It is not installed.
    """
    return _load("soundfile")


def load_soxr() -> Any:
    """The module that resamples.

    Raises:
        DependencyError: It is not installed.
    """
    return _load("soxr")


def decoded(recording: bytes, settings: AudioSettings, where: str) -> Samples:
    """A recording in one channel at the model's rate.

    Raises:
        RequestError: It is none, or longer than the settings let it be.
    """
    rate_hz, channels = _read(recording, settings, where)
    mono: Samples = channels[:, 0] if settings.mono == "first" else channels.mean(axis=1, dtype=np.float32)
    if rate_hz != settings.sample_rate_hz:
        _require_small(len(mono) * settings.sample_rate_hz // rate_hz, where)
        mono = load_soxr().resample(np.ascontiguousarray(mono), rate_hz, settings.sample_rate_hz)
    if not len(mono):
        raise bad(where, "holds no sound")
    return mono


def scaled(samples: Samples, settings: AudioSettings, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Numbers of an input from samples of -1 to 1; whole numbers are rounded and kept within the type's range."""
    values = samples
    if settings.normalize == "peak":
        values = values / max(float(np.abs(values).max()), _SILENCE)
    elif settings.normalize == "standard":
        values = (values - values.mean()) / np.sqrt(values.var() + _SILENCE)
    whole = dtype.kind in "iu"
    scale = settings.scale if settings.scale is not None else _WHOLE_SCALE if whole else 1.0
    values = values * np.float32(scale)
    if not whole:
        return values
    limits = np.iinfo(dtype)
    rounded: npt.NDArray[Any] = np.clip(np.rint(values), limits.min, limits.max)
    return rounded


def _read(recording: bytes, settings: AudioSettings, where: str) -> tuple[int, npt.NDArray[np.float32]]:
    """The rate in hertz and the samples, float32 ``[samples, channels]``."""
    soundfile = load_soundfile()
    try:
        with soundfile.SoundFile(io.BytesIO(recording)) as file:
            rate_hz, most = file.samplerate, int(settings.max_s * file.samplerate)
            if file.format not in _FORMATS:
                raise bad(where, f"is {file.format}; {', '.join(_FORMATS)} are decoded")
            if not _RATES_HZ[0] <= rate_hz <= _RATES_HZ[1]:
                raise bad(where, f"has {rate_hz} samples a second, {_RATES_HZ[0]} to {_RATES_HZ[1]} are taken")
            if file.channels > _MAX_CHANNELS:
                raise bad(where, f"has {file.channels} channels, at most {_MAX_CHANNELS} are decoded")
            _require_small(min(file.frames, most + 1) * file.channels, where)
            # A header may lie about the length: one sample more than may be is read, and no more.
            channels: npt.NDArray[np.float32] = file.read(most + 1, dtype="float32", always_2d=True)
    except soundfile.SoundFileError as e:
        # Its text begins with the address of the stream.
        why = " ".join(str(getattr(e, "error_string", e)).split())[:100]
        raise bad(where, f"is no recording that can be decoded ({why})") from e
    if len(channels) > most:
        raise bad(where, f"is longer than the {settings.max_s:g} s that are taken")
    if not np.isfinite(channels).all():
        raise bad(where, "holds samples that are no numbers")
    return rate_hz, channels


def _fitted(samples: Samples, length: int, settings: AudioSettings, where: str) -> Samples:
    """At most ``length`` samples; what is missing is for the caller to fill up."""
    if len(samples) > length and settings.long == "refuse":
        raise bad(where, f"has {len(samples)} samples at {settings.sample_rate_hz} Hz, the input takes {length}")
    if len(samples) < length and settings.short == "refuse":
        raise bad(where, f"has {len(samples)} samples at {settings.sample_rate_hz} Hz, the input needs {length}")
    return samples[:length]


def _require_small(numbers: int, where: str) -> None:
    if numbers > _MAX_NUMBERS:
        raise bad(where, f"becomes {numbers:,} numbers, at most {_MAX_NUMBERS:,} are taken")


def _shape(spec: TensorSpec, count: int, length: int) -> tuple[int, ...]:
    return (length,) if len(spec.shape) == 1 else (count, length) if len(spec.shape) == 2 else (count, 1, length)


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as e:  # soundfile raises OSError where its C library is missing
        raise DependencyError(
            f"recordings need the package {name}, which is not installed", remedy="pip install 'chipwise[audio]'"
        ) from e
