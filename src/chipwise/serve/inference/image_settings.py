"""ImageSettings: how a picture becomes an input, as the bundle or a request says."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from chipwise.serve.inference.factor import Number, Positive

_MAX_SIDE = 8192
Side = Annotated[int, Field(ge=1, le=_MAX_SIDE)]


class ImageSettings(BaseModel):
    """How a picture becomes an input: ``(pixel * scale - mean) / std``, pixels from 0 to 255.

    Attributes:
        fit: ``stretch`` to the input's size; ``letterbox`` into it with ``fill`` around; ``crop`` its middle.
        size: Height and width, where the input leaves them free; None for the picture's own.
        order: The order of the colours.
        scale: None for 1/255 where the input takes fractions, 1 where it takes whole numbers.
        mean: One for all channels, or one each.
        std: The same.
        fill: What lies around a picture in a letterbox, as a pixel.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    fit: Literal["stretch", "letterbox", "crop"] = "stretch"
    size: Annotated[list[Side], Field(min_length=2, max_length=2)] | None = None
    order: Literal["rgb", "bgr"] = "rgb"
    scale: Number | None = None
    mean: Annotated[list[Number], Field(min_length=1, max_length=4)] = [0.0]
    std: Annotated[list[Positive], Field(min_length=1, max_length=4)] = [1.0]
    fill: Annotated[int, Field(ge=0, le=255)] = 114
