from __future__ import annotations

import importlib
import io

import numpy as np
import pytest

from chipwise.engine.graph_session import TensorSpec
from chipwise.errors import DependencyError, RequestError
from chipwise.serve.inference import image as images
from chipwise.serve.inference.feed_buffer import FeedBuffer
from chipwise.serve.inference.image import GivenImages, ImageInput, normalized
from chipwise.serve.inference.image_settings import ImageSettings

Image = pytest.importorskip("PIL.Image")

FLOAT, BYTE = np.dtype(np.float32), np.dtype(np.uint8)


def png(pixels: np.ndarray, form: str = "PNG", **options) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form, **options)
    return out.getvalue()


def drawn(height: int = 4, width: int = 6) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8)


def array_of(*pictures: bytes, shape=(None, 3, 4, 6), dtype=FLOAT, **settings) -> np.ndarray:
    spec = TensorSpec("x", shape, dtype)
    given = GivenImages("x", pictures, ImageSettings(**settings), "inputs[0]").checked(spec)
    return given.filled(FeedBuffer(), spec)


def test_pixels_become_numbers_as_the_settings_say() -> None:
    pixels = drawn()
    plain = array_of(png(pixels))
    assert plain.dtype == np.float32
    assert np.allclose(plain[0], pixels.transpose(2, 0, 1) / 255, atol=1e-6)
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    normal = array_of(png(pixels), mean=mean, std=std)
    assert np.allclose(normal[0], ((pixels / 255 - mean) / std).transpose(2, 0, 1), atol=1e-5)
    assert np.allclose(array_of(png(pixels), order="bgr")[0], plain[0, ::-1])
    whole = array_of(png(pixels), png(pixels), shape=(2, 4, 6, 3), dtype=BYTE)
    assert whole.dtype == np.uint8
    assert np.array_equal(whole, np.stack([pixels, pixels]))
    shifted = normalized(pixels, ImageSettings(mean=[128.0]), np.dtype(np.int8))
    assert np.array_equal(shifted, pixels.astype(int) - 128)


def test_a_jpeg_and_a_grey_picture_and_one_with_transparency() -> None:
    flat = np.full((4, 6, 3), 200, np.uint8)
    assert np.allclose(array_of(png(flat, "JPEG")), 200 / 255, atol=0.02)
    assert array_of(png(flat), shape=(1, 1, 4, 6)).shape == (1, 1, 4, 6)
    clear = np.concatenate([flat, np.zeros((4, 6, 1), np.uint8)], axis=2)
    assert np.allclose(array_of(png(clear)), 200 / 255, atol=0.01)


def test_fitting() -> None:
    wide = np.zeros((2, 12, 3), np.uint8)
    wide[:, 6:] = 255
    stretched = array_of(png(wide))[0, 0]
    assert stretched[:, 0].max() == 0
    assert stretched[:, -1].min() == 1
    boxed = array_of(png(wide), fit="letterbox", fill=51)[0, 0]
    assert np.allclose(boxed[0], 0.2)
    assert np.allclose(boxed[-1], 0.2)
    assert boxed[1, 0] == 0
    assert boxed[1, -1] == 1
    cropped = array_of(png(wide), fit="crop")[0, 0]
    assert cropped.shape == (4, 6)
    assert cropped[:, 0].max() == 0
    assert cropped[:, -1].min() == 1


def test_a_camera_held_sideways_is_turned() -> None:
    pixels = drawn(4, 6)
    turned = Image.fromarray(pixels)
    exif = turned.getexif()
    exif[0x0112] = 6
    out = io.BytesIO()
    turned.save(out, "PNG", exif=exif)
    found = array_of(out.getvalue(), shape=(1, 6, 4, 3), dtype=BYTE)
    assert np.array_equal(found[0], np.rot90(pixels, -1))


def test_free_sides_take_the_own_size_or_one_that_is_given() -> None:
    free = (None, 3, None, None)
    assert array_of(png(drawn()), shape=free).shape == (1, 3, 4, 6)
    assert array_of(png(drawn()), png(drawn(8, 8)), shape=free, size=[5, 7]).shape == (2, 3, 5, 7)
    with pytest.raises(RequestError, match="another size than the first"):
        array_of(png(drawn()), png(drawn(8, 8)), shape=free)
    with pytest.raises(RequestError, match="has its own size"):
        array_of(png(drawn()), size=[5, 7])


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (b"", b"GIF89a", png(drawn())[:60], png(drawn(), "GIF"), png(drawn(), "JPEG")[:300]):
        with pytest.raises(RequestError, match=r"data\[0\]: is no JPEG or PNG that can be decoded"):
            array_of(data)
    with pytest.raises(RequestError, match="is none of pictures"):
        array_of(png(drawn()), shape=(1, 7, 4, 6))
    with pytest.raises(RequestError, match="needs 1 number or 3"):
        array_of(png(drawn()), mean=[0.0, 0.0])
    with pytest.raises(RequestError, match=r"shape: is \[2, 3, 4, 6\], the input 'x' takes \[1"):
        array_of(png(drawn()), png(drawn()), shape=(1, 3, 4, 6))
    monkeypatch.setattr(images, "_MAX_PIXELS", 20)
    with pytest.raises(RequestError, match="has 6 x 4 pixels, at most 20 are decoded"):
        array_of(png(drawn()))


def test_without_pillow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    picture = png(drawn())
    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(DependencyError, match=r"Pillow, which is not installed; pip install 'chipwise\[images\]'"):
        array_of(picture)


def test_which_inputs_take_pictures() -> None:
    assert ImageInput.of(TensorSpec("x", (1, 3, 224, 224), FLOAT)).channels_first
    assert not ImageInput.of(TensorSpec("x", (1, 224, 224, 3), FLOAT)).channels_first
    assert ImageInput.of(TensorSpec("x", (1, 224, 224), FLOAT)) is None
    assert ImageInput.of(TensorSpec("x", (1, 64, 56, 56), FLOAT)) is None


def test_pictures_that_would_become_too_many_numbers_are_refused_before_they_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = (None, 3, None, None)
    with pytest.raises(RequestError, match=r"becomes 402,653,184 numbers, at most 32,000,000"):
        array_of(png(drawn()), png(drawn()), shape=free, size=[8192, 8192])
    monkeypatch.setattr(images, "_MAX_NUMBERS", 150)
    assert array_of(png(drawn()), png(drawn()), shape=free).size == 144
    with pytest.raises(RequestError, match=r"becomes 216 numbers, at most 150"):
        array_of(*[png(drawn())] * 3, shape=free)
