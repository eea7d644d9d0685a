"""RknnOptions: the engine's settings as a manifest names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from chipwise.errors import EngineError

# Each context holds the model's weights again.
_MAX_CONTEXTS = 16


@dataclass(frozen=True)
class RknnOptions:
    """Settings.

    Attributes:
        core_mask: ``auto``, ``0``, ``1``, ``2``, ``0_1``, ``0_1_2`` or ``all``; None leaves it to the engine.
        contexts: How many times a graph is opened, so that as many threads may run it at once.
        pass_through: Whether float inputs of an int8 model that are not four-dimensional are quantized here, by the
            scale in the file, and handed over as they are.
        mask_value: The addend of masked scores, for decoders.
        sliding_window: Tokens a sliding layer looks back, for decoders that have such layers.
        shapes: The shapes that a plain graph was compiled for, if several; see ``read_shapes``.
        toolkit_version: The toolkit that compiled the model, as the build wrote it down.
    """

    core_mask: object | None = None
    contexts: int = 1
    pass_through: bool = False
    mask_value: float | None = None
    sliding_window: int | None = None
    shapes: object | None = None
    toolkit_version: str | None = None

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> RknnOptions:
        """Read them.

        Raises:
            EngineError: One is unknown or malformed.
        """
        known = [field.name for field in fields(cls)]
        if unknown := sorted(set(options) - set(known)):
            raise EngineError(
                f"the engine has no option {unknown[0]!r}", where="rknn", remedy=f"it has {', '.join(known)}"
            )
        read = cls(**options)
        _require("contexts", read.contexts, _is_int(read.contexts) and 1 <= read.contexts <= _MAX_CONTEXTS,
                 f"a number from 1 to {_MAX_CONTEXTS}")  # fmt: skip
        _require("pass_through", read.pass_through, isinstance(read.pass_through, bool), "true or false")
        _require("mask_value", read.mask_value,
                 read.mask_value is None or isinstance(read.mask_value, float) or _is_int(read.mask_value),
                 "a number")  # fmt: skip
        _require("sliding_window", read.sliding_window,
                 read.sliding_window is None or (_is_int(read.sliding_window) and read.sliding_window > 0),
                 "a number of tokens")  # fmt: skip
        return read


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _require(name: str, value: object, holds: bool, wanted: str) -> None:
    if not holds:
        raise EngineError(f"the option {name} is {value!r}, not {wanted}", where="rknn")
