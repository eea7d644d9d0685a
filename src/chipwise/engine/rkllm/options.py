"""The engine's settings as a manifest names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chipwise.engine.rkllm.settings import RkllmSettings
from chipwise.errors import EngineError

_TYPES = {"library": str, "embed_flash": bool, "trust_layout": bool, "toolkit_version": str}


def read_options(options: Mapping[str, Any], *, context: int) -> RkllmSettings:
    """Read them.

    Args:
        options: ``library``, ``embed_flash`` and ``trust_layout`` as in ``RkllmSettings``; ``toolkit_version``, the
            rkllm-toolkit that converted the model, is for people.
        context: Tokens of a prompt and its answer.

    Raises:
        EngineError: An option is unknown or malformed.
        InputError: The runtime takes no such context.
    """
    if unknown := sorted(set(options) - set(_TYPES)):
        raise EngineError(
            f"the engine has no option {unknown[0]!r}", where="rkllm", remedy=f"it has {', '.join(_TYPES)}"
        )
    for name, value in options.items():
        if not isinstance(value, _TYPES[name]):
            raise EngineError(f"the option {name} is {value!r}, not of type {_TYPES[name].__name__}", where="rkllm")
    given = {name: value for name, value in options.items() if name != "toolkit_version"}
    return RkllmSettings(context=context, max_new_tokens=1, **given)
