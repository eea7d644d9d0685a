"""Factors that clients choose: so far from float32's limits that a pixel times one, over another, meets none."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

_LARGEST = 1e12

Number = Annotated[float, Field(allow_inf_nan=False, ge=-_LARGEST, le=_LARGEST)]
"""A factor or an offset."""

Positive = Annotated[float, Field(allow_inf_nan=False, ge=1 / _LARGEST, le=_LARGEST)]
"""A factor or a divisor that is above zero."""
