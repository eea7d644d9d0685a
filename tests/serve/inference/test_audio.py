from __future__ import annotations

import contextlib
import importlib
import io
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.engine.graph_session import TensorSpec
from chipwise.errors import DependencyError, RequestError
from chipwise.serve.inference import audio
from chipwise.serve.inference.audio import AudioInput, GivenAudio
from chipwise.serve.inference.audio_settings import AudioSettings
from chipwise.serve.inference.feed_buffer import FeedBuffer

soundfile = pytest.importorskip("soundfile")
pytest.importorskip("soxr")

FLOAT, SHORT = np.dtype(np.float32), np.dtype(np.int16)
RATE_HZ = 16_000


def tone(hz: float = 440.0, seconds: float = 0.5, rate_hz: int = RATE_HZ, level: float = 0.5) -> np.ndarray:
    return (level * np.sin(2 * np.pi * hz * np.arange(int(seconds * rate_hz)) / rate_hz)).astype(np.float32)


def file_of(samples: np.ndarray, rate_hz: int = RATE_HZ, form: str = "WAV", subtype: str | None = None) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, samples, rate_hz, format=form, subtype=subtype)
    return out.getvalue()


def array_of(*recordings: bytes, shape=(None, None), dtype=FLOAT, rate_hz: int = RATE_HZ, **options) -> np.ndarray:
    spec = TensorSpec("x", shape, dtype)
    chosen = AudioSettings(sample_rate_hz=rate_hz, **options)
    return GivenAudio("x", recordings, chosen, "inputs[0]").checked(spec).filled(FeedBuffer(), spec)


def test_samples_of_the_models_rate_come_as_they_are() -> None:
    samples = tone()
    assert np.array_equal(array_of(file_of(samples, subtype="FLOAT"))[0], samples)
    assert np.abs(array_of(file_of(samples))[0] - samples).max() < 1 / 32768
    whole = np.rint(samples * 32767).astype(np.int16)
    assert np.array_equal(array_of(file_of(whole), dtype=SHORT)[0], whole)
    assert array_of(file_of(samples), file_of(samples), shape=(None, 1, None)).shape == (2, 1, len(samples))
    assert array_of(file_of(samples), shape=(None,)).shape == samples.shape


@pytest.mark.parametrize("form", ["WAV", "FLAC", "OGG", "MP3"])
def test_each_format_is_heard(form: str) -> None:
    heard = array_of(file_of(tone(seconds=1.0), form=form))[0]
    strength = np.abs(np.fft.rfft(heard))
    assert abs(int(strength.argmax()) * RATE_HZ / len(heard) - 440) < 2
    assert np.abs(heard).max() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("rate_hz", [8000, 22_050, 44_100, 48_000])
def test_another_rate_is_resampled_without_new_tones(rate_hz: int) -> None:
    heard = array_of(file_of(tone(1000, 1.0, rate_hz), rate_hz, subtype="FLOAT"))[0]
    assert len(heard) == RATE_HZ
    inner = slice(500, -500)
    assert np.abs(heard - tone(1000, 1.0))[inner].max() < 1e-3


def test_what_the_rate_cannot_hold_is_gone_and_does_not_come_back_as_another_tone() -> None:
    heard = array_of(file_of(tone(11_000, 1.0, 48_000), 48_000, subtype="FLOAT"))[0]
    assert np.abs(heard[500:-500]).max() < 1e-3


def test_channels_become_one() -> None:
    both = np.stack([tone(level=0.4), -tone(level=0.2)], axis=1)
    recording = file_of(both, subtype="FLOAT")
    assert np.allclose(array_of(recording)[0], both.mean(axis=1), atol=1e-7)
    assert np.array_equal(array_of(recording, mono="first")[0], both[:, 0])


def test_loudness_is_normalized_as_the_settings_say() -> None:
    recording = file_of(tone(level=0.1) + np.float32(0.05), subtype="FLOAT")
    assert np.abs(array_of(recording, normalize="peak")).max() == pytest.approx(1)
    standard = array_of(recording, normalize="standard")
    assert (standard.mean(), standard.std()) == (pytest.approx(0, abs=1e-5), pytest.approx(1, abs=1e-4))
    assert np.allclose(array_of(recording, scale=32768.0), array_of(recording) * 32768)
    for normalize in ("peak", "standard"):
        assert np.array_equal(array_of(file_of(np.zeros(100)), normalize=normalize), np.zeros((1, 100)))


def test_lengths_are_met() -> None:
    samples = tone()
    recording = file_of(samples, subtype="FLOAT")
    padded = array_of(recording, shape=(1, 10_000))[0]
    assert np.array_equal(padded[: len(samples)], samples)
    assert not padded[len(samples) :].any()
    assert np.array_equal(array_of(recording, samples=100, long="crop")[0], samples[:100])
    several = array_of(recording, file_of(samples[:1000], subtype="FLOAT"))
    assert several.shape == (2, len(samples))
    assert not several[1, 1000:].any()


def test_a_buffer_that_held_a_longer_one_leaves_nothing_of_it() -> None:
    spec, buffer = TensorSpec("x", (1, 8000), FLOAT), FeedBuffer()
    chosen = AudioSettings(sample_rate_hz=RATE_HZ)
    for samples in (np.ones(8000), np.ones(10) / 2):
        given_audio = GivenAudio("x", [file_of(samples, subtype="FLOAT")], chosen, "inputs[0]")
        array = given_audio.checked(spec).filled(buffer, spec)
    assert array.sum() == 5


def headed(frames_said: int) -> bytes:
    """A WAV file whose header promises more than there is."""
    recording = bytearray(file_of(tone()))
    at = recording.index(b"data")
    recording[at + 4 : at + 8] = struct.pack("<I", frames_said * 2)
    return bytes(recording)


@pytest.mark.parametrize(
    ("recording", "options", "words"),
    [
        (b"", {}, "no recording that can be decoded"),
        (b"RIFF nonsense that goes on for a while", {}, "no recording that can be decoded"),
        (file_of(np.zeros(0)), {}, "holds no sound"),
        (file_of(tone()), {"max_s": 0.4}, "longer than the 0.4 s"),
        (file_of(tone()), {"samples": 100}, "has 8000 samples at 16000 Hz, the input takes 100"),
        (file_of(tone()), {"samples": 9000, "short": "refuse"}, "the input needs 9000"),
        (file_of(np.zeros((10, 9))), {}, "9 channels"),
        (file_of(tone(), 500), {}, "500 samples a second"),
        (file_of(np.array([np.nan, 0]), subtype="FLOAT"), {}, "no numbers"),
        (file_of(tone(), form="AIFF"), {}, "is AIFF"),
        (file_of(tone()), {"samples": 100_000_000}, "100,000,000 numbers"),
        (file_of(np.zeros(600_000), 1000), {"max_s": 600.0, "rate_hz": 192_000}, "115,200,000 numbers"),
    ],
    # Files hold the time they were made at.
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused_says_why(recording: bytes, options: dict, words: str) -> None:
    with pytest.raises(RequestError) as caught:
        array_of(recording, **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("inputs[0].data")


def test_a_header_that_promises_too_much_takes_no_memory() -> None:
    heard = array_of(headed(1_000_000))
    assert heard.shape[1] <= 1_000_000


@pytest.mark.parametrize(
    ("shape", "given_count", "options", "words"),
    [
        ((None, 3, 4, 6), 1, {}, "none of recordings"),
        ((None, 2, None), 1, {}, "none of recordings"),
        ((2, None), 1, {}, "takes 2 at once"),
        ((None,), 2, {}, "takes 1 at once"),
        ((1, 512), 1, {"samples": 512}, "its own length"),
        ((1, 512), 0, {}, "holds no recording"),
    ],
)
def test_an_input_that_does_not_fit(shape: tuple, given_count: int, options: dict, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        array_of(*[file_of(tone())] * given_count, shape=shape, **options)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["WAV", "FLAC", "OGG", "MP3"]), st.data())
def test_damaged_files_are_refused_or_heard_but_break_nothing(form: str, data: st.DataObject) -> None:
    recording = bytearray(file_of(tone(seconds=0.1), form=form))
    for _ in range(data.draw(st.integers(1, 5))):
        recording[data.draw(st.integers(0, len(recording) - 1))] = data.draw(st.integers(0, 255))
    del recording[data.draw(st.integers(1, len(recording))) :]
    with contextlib.suppress(RequestError):
        assert np.isfinite(array_of(bytes(recording), long="crop", samples=2000)).all()


@pytest.mark.parametrize("missing", ["soundfile", "soxr"])
def test_without_the_package_one_line_names_the_extra(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def load(name: str):
        if name == missing:
            raise ImportError(name=name)
        return real(name)

    monkeypatch.setattr(audio.importlib, "import_module", load)
    with pytest.raises(DependencyError, match=r"chipwise\[audio\]"):
        array_of(file_of(tone()))


def test_which_inputs_take_recordings() -> None:
    found = {shape: AudioInput.of(TensorSpec("x", shape, FLOAT)) for shape in [(5,), (2, 5), (2, 1, 5), (2, 3, 5), ()]}
    assert {shape: (one.batch, one.samples) for shape, one in found.items() if one} == {
        (5,): (1, 5),
        (2, 5): (2, 5),
        (2, 1, 5): (2, 5),
    }
