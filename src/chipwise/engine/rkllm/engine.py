"""RkllmEngine: opens .rkllm files with librkllmrt.so, on the board."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chipwise.engine.rkllm.model import RkllmModel
from chipwise.engine.rkllm.options import read_options
from chipwise.engine.rkllm.session import RkllmSession
from chipwise.engine.rkllm.settings import CONTEXT_STEP
from chipwise.engine.rockchip_board import find_board
from chipwise.engine.session import Session
from chipwise.errors import EngineError, InputError

# "Platform error: must be either RK3588, RK3576, RV1126B, or RK3562" (rknn-llm issue 416).
_CHIPS = ("rk3588", "rk3576", "rk3562", "rv1126b")
_ROLE = "rkllm"
_ROOT = Path("/")


class RkllmEngine:
    """Rockchip's runtime for language models: one sequence at a time, whole answers best through ``RkllmModel``.

    Options: see ``read_options``.
    """

    name = "rkllm"

    def __init__(self, root: Path = _ROOT) -> None:
        """Look at nothing yet.

        Args:
            root: The folder that holds ``proc`` and ``sys``; ``/``, or a recorded tree.
        """
        self._root = root

    def open(self, files: Mapping[str, Path], *, n_slots: int, max_context: int, options: Mapping[str, Any]) -> Session:
        """Open the role ``rkllm``.

        Raises:
            InputError: This machine is no Rockchip board, or librkllmrt.so is not on it, there is more than one slot,
                or the context is none that the runtime takes.
            EngineError: The role is missing, an option is malformed, or the runtime cannot load the model or be
                driven token by token.
            ModelFormatError: The file is missing or empty.
        """
        board = find_board(self.name, self._root)
        if n_slots != 1:
            raise InputError(
                f"{n_slots} slots: one instance of librkllmrt.so runs one sequence at a time",
                where=self.name,
                remedy="open it with one slot (`chipwise serve --slots 1`)",
            )
        if max_context < 1:
            raise EngineError(f"a slot of {max_context} tokens holds nothing", where=self.name)
        # The token that the runtime chooses behind the last one, though nobody asked, takes a place too.
        context = -(-max_context // CONTEXT_STEP) * CONTEXT_STEP
        settings = read_options(options, context=context)
        if board.chip is not None and board.chip not in _CHIPS:
            raise EngineError(
                f"librkllmrt.so runs on {', '.join(_CHIPS)}, and this board has an {board.chip}",
                where=self.name,
                remedy="run the model with another engine on this board",
            )
        if _ROLE not in files:
            raise EngineError(
                f"no .rkllm file among the files {sorted(files)}",
                where=self.name,
                remedy=f"a bundle for this engine needs the role {_ROLE!r}",
            )
        model = RkllmModel(files[_ROLE], settings)
        try:
            return RkllmSession(model, max_context=min(max_context, context - 1))
        except BaseException:
            model.close()
            raise
