"""Pictures (JPEG, PNG) as inputs: decoded by Pillow, resized, normalized and laid out."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chipwise.engine.graph_session import TensorSpec
from chipwise.errors import DependencyError
from chipwise.serve.inference.feed_buffer import FeedBuffer
from chipwise.serve.inference.image_settings import ImageSettings
from chipwise.serve.inference.tensor import bad, check_shape

# A picture says its size before it is decoded: more pixels than any camera here takes are refused.
_MAX_PIXELS = 64_000_000
# What all pictures of an input become: 128 MB in float32.
_MAX_NUMBERS = 32_000_000
_FORMATS = ("JPEG", "PNG")
_CHANNELS = (1, 3)


@dataclass(frozen=True)
class ImageInput:
    """An input that takes pictures.

    Attributes:
        spec: The input.
        channels_first: Whether channels come before height and width.
        channels: 1 or 3.
        height: Pixels; None if it is free.
        width: Pixels; None if it is free.
    """

    spec: TensorSpec
    channels_first: bool
    channels: int
    height: int | None
    width: int | None

    @classmethod
    def of(cls, spec: TensorSpec) -> ImageInput | None:
        """What an input is to pictures; None if it cannot take them: it needs a batch, channels, height and width."""
        if len(spec.shape) != 4:
            return None
        _, one, two, three = spec.shape
        if one in _CHANNELS:
            return cls(spec, True, int(one or 0), two, three)
        return cls(spec, False, int(three or 0), one, two) if three in _CHANNELS else None


@dataclass(frozen=True)
class GivenImages:
    """The pictures of a request for one input.

    Attributes:
        name: The input.
        pictures: Each as the bytes of its file.
        settings: How they become numbers.
        where: What they are called in errors.
    """

    name: str
    pictures: Sequence[bytes]
    settings: ImageSettings
    where: str

    def checked(self, spec: TensorSpec) -> GivenImages:
        """The same, if the input takes so many pictures and settings of this kind.

        Raises:
            RequestError: It does not.
            DependencyError: There is nothing to decode them with.
        """
        target = ImageInput.of(spec)
        if target is None:
            raise bad(f"{self.where}.datatype", f"the input {self.name!r} is none of pictures: it takes numbers")
        for name in ("mean", "std"):
            if len(getattr(self.settings, name)) not in (1, target.channels):
                raise bad(f"{self.where}.parameters.image.{name}", f"needs 1 number or {target.channels}")
        if self.settings.size is not None and (target.height, target.width) != (None, None):
            raise bad(f"{self.where}.parameters.image.size", f"the input {self.name!r} has its own size")
        shape = (len(self.pictures), *spec.shape[1:])
        sides = self.settings.size or (target.height or 1, target.width or 1)
        _refuse_numbers(len(self.pictures), target.channels, sides, self.where)
        check_shape([1 if size is None else size for size in shape], _with_free_sides(spec), f"{self.where}.shape")
        load_pillow()
        return self

    def filled(self, buffer: FeedBuffer, spec: TensorSpec) -> npt.NDArray[Any]:
        """The array of the pictures, in the buffer.

        Raises:
            RequestError: One is no picture, or larger than the server decodes.
        """
        target = ImageInput.of(spec)
        if target is None:
            raise TypeError(f"{spec.name} takes no pictures")
        array: npt.NDArray[Any] | None = None
        dtype = spec.dtype or np.dtype(np.float32)
        for i, picture in enumerate(self.pictures):
            pixels = _pixels(picture, target, self.settings, f"{self.where}.data[{i}]")
            if array is None:
                sides, channels = pixels.shape[:2], target.channels
                _refuse_numbers(len(self.pictures), channels, sides, self.where)
                shape = (channels, *sides) if target.channels_first else (*sides, channels)
                array = buffer.array(self.name, (len(self.pictures), *shape), dtype)
            if pixels.shape[:2] != (array.shape[2:] if target.channels_first else array.shape[1:3]):
                raise bad(f"{self.where}.data[{i}]", "has another size than the first; give a size for all")
            values = normalized(pixels, self.settings, dtype)
            # A client may choose a scale beyond what float16 holds.
            with np.errstate(over="ignore"):
                array[i] = values.transpose(2, 0, 1) if target.channels_first else values
        if array is None:
            raise bad(f"{self.where}.data", "holds no picture")
        return array


def _refuse_numbers(pictures: int, channels: int, sides: Sequence[int], where: str) -> None:
    numbers = pictures * channels * sides[0] * sides[1]
    if numbers > _MAX_NUMBERS:
        raise bad(f"{where}.data", f"becomes {numbers:,} numbers, at most {_MAX_NUMBERS:,} are taken")


def load_pillow() -> Any:
    """Pillow's module of pictures.

    Raises:
        DependencyError: It is not installed.
    """
    try:
        return importlib.import_module("PIL.Image")
    except ImportError as e:
        raise DependencyError(
            "pictures are decoded by Pillow, which is not installed", remedy="pip install 'chipwise[images]'"
        ) from e


def normalized(pixels: npt.NDArray[np.uint8], settings: ImageSettings, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Numbers of an input from pixels.

    Args:
        pixels: uint8 ``[height, width, channels]``.
        settings: How.
        dtype: The input's type; whole numbers are rounded and kept within its range.
    """
    whole = dtype.kind in "iu"
    scale = settings.scale if settings.scale is not None else 1.0 if whole else 1 / 255
    if whole and (scale, settings.mean, settings.std) == (1.0, [0.0], [1.0]):
        return pixels
    mean, std = (np.array(values, np.float32) for values in (settings.mean, settings.std))
    values: npt.NDArray[Any] = (pixels * np.float32(scale) - mean) / std
    if not whole:
        return values
    limits = np.iinfo(dtype)
    rounded: npt.NDArray[Any] = np.clip(np.rint(values), limits.min, limits.max)
    return rounded


def _pixels(picture: bytes, target: ImageInput, settings: ImageSettings, where: str) -> npt.NDArray[np.uint8]:
    """A picture in the input's size, uint8 ``[height, width, channels]``."""
    with _decoding(where):
        opened = load_pillow().open(io.BytesIO(picture), formats=_FORMATS)
    if opened.width * opened.height > _MAX_PIXELS:
        raise bad(where, f"has {opened.width} x {opened.height} pixels, at most {_MAX_PIXELS:,} are decoded")
    with _decoding(where):
        image = _upright(opened).convert("L" if target.channels == 1 else "RGB")
    own = settings.size or [image.height, image.width]
    height, width = target.height or own[0], target.width or own[1]
    found = np.asarray(_fitted(image, width, height, settings))
    pixels: npt.NDArray[np.uint8] = found.reshape(height, width, target.channels)
    return pixels[:, :, ::-1] if settings.order == "bgr" else pixels


@contextmanager
def _decoding(where: str) -> Iterator[None]:
    try:
        yield
    except Exception as e:  # Pillow's decoders raise many types without a common base
        raise bad(where, f"is no JPEG or PNG that can be decoded ({type(e).__name__})") from e


def _upright(image: Any) -> Any:
    """As a camera that was held sideways says it is to be seen."""
    return importlib.import_module("PIL.ImageOps").exif_transpose(image)


def _fitted(image: Any, width: int, height: int, settings: ImageSettings) -> Any:
    pillow = load_pillow()
    bilinear = pillow.Resampling.BILINEAR
    if (image.width, image.height) == (width, height):
        return image
    if settings.fit == "stretch":
        return image.resize((width, height), bilinear)
    ratios = (width / image.width, height / image.height)
    ratio = min(ratios) if settings.fit == "letterbox" else max(ratios)
    inner = (max(1, round(image.width * ratio)), max(1, round(image.height * ratio)))
    left, top = (width - inner[0]) // 2, (height - inner[1]) // 2
    canvas = pillow.new(image.mode, (width, height), settings.fill if image.mode == "L" else (settings.fill,) * 3)
    canvas.paste(image.resize(inner, bilinear), (left, top))
    return canvas


def _with_free_sides(spec: TensorSpec) -> TensorSpec:
    return TensorSpec(spec.name, (spec.shape[0], *(None for _ in spec.shape[1:])), spec.dtype)
