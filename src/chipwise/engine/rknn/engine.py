"""RknnEngine: opens .rknn files with Rockchip's runtime, on the board."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from chipwise.engine.decoder_info import DecoderInfo
from chipwise.engine.graph_session import GraphSession
from chipwise.engine.mask import Mask
from chipwise.engine.portable import PortableSession
from chipwise.engine.rknn.context import RknnContext
from chipwise.engine.rknn.core_mask import masks_of_contexts
from chipwise.engine.rknn.decoder_graph import RknnDecoderGraph
from chipwise.engine.rknn.graph import RknnGraphSession
from chipwise.engine.rknn.lite import Lite, find_lite
from chipwise.engine.rknn.options import RknnOptions
from chipwise.engine.rknn.shapes import read_shapes
from chipwise.engine.rockchip_board import RockchipBoard, find_board
from chipwise.engine.session import Session
from chipwise.errors import EngineError
from chipwise.model.rknn_file import RknnFile, read_rknn_file

# One NPU under two names; the toolkit builds for either.
_SAME_NPU = (frozenset({"rk3566", "rk3568"}),)
_ROOT = Path("/")


class RknnEngine:
    """Rockchip's NPU through rknn-toolkit-lite2.

    Options: the fields of ``RknnOptions``.
    """

    name = "rknn"

    def __init__(self, root: Path = _ROOT) -> None:
        """Look at nothing yet.

        Args:
            root: The folder that holds ``proc`` and ``sys``; ``/``, or a recorded tree.
        """
        self._root = root

    def open(self, files: Mapping[str, Path], *, n_slots: int, max_context: int, options: Mapping[str, Any]) -> Session:
        """Open ``prefill`` and ``decode``, static graphs with the inputs and outputs of portable ONNX graphs.

        Raises:
            InputError: This machine is no Rockchip board, or rknn-toolkit-lite2 is not installed on it.
            EngineError: A role is missing, an option is malformed, or the runtime cannot load a graph.
            ModelFormatError: A file is damaged.
        """
        if n_slots < 1 or max_context < 1:
            raise EngineError(f"{n_slots} slots of {max_context} tokens hold nothing", where=self.name)
        settings = RknnOptions.read(options)
        board, create = self._board()
        if not {"prefill", "decode"} <= set(files):
            raise EngineError(
                f"no decoder among the files {sorted(files)}",
                where=self.name,
                remedy="a bundle for this engine needs the roles 'prefill' and 'decode'; a plain graph is not served",
            )
        if settings.contexts != 1:
            raise EngineError(
                f"a decoder in {settings.contexts} contexts", where=self.name, remedy="leave out the option contexts"
            )
        mask = Mask(settings.mask_value, settings.sliding_window)
        with ExitStack() as opened:
            pair = []
            for role in ("prefill", "decode"):
                file = _read(files[role], board)
                info = _info(files[role], file)
                session = _graph(files[role], file, settings, board, create)
                opened.callback(session.close)
                pair.append(RknnDecoderGraph(session, info))
            made = PortableSession(*pair, n_slots=n_slots, max_context=max_context, mask=mask)
            opened.pop_all()
        return made

    def open_graph(self, path: Path, *, options: Mapping[str, Any]) -> GraphSession:
        """Open a plain graph, in as many contexts as the options say.

        Raises:
            InputError: This machine is no Rockchip board, or rknn-toolkit-lite2 is not installed on it.
            EngineError: An option is malformed, the graph is for another chip, or the runtime cannot load it.
            ModelFormatError: The file is damaged.
        """
        settings = RknnOptions.read(options)
        board, create = self._board()
        return _graph(path, _read(path, board), settings, board, create)

    def _board(self) -> tuple[RockchipBoard, Callable[[], Lite]]:
        return find_board(self.name, self._root), find_lite()


def _read(path: Path, board: RockchipBoard) -> RknnFile:
    file = read_rknn_file(path)
    runs_on = set(file.targets).union(*(same for same in _SAME_NPU if same & set(file.targets)))
    if board.chip is not None and file.targets and board.chip not in runs_on:
        raise EngineError(
            f"the model is for {', '.join(file.targets)}, and this board has an {board.chip}",
            where=str(path),
            remedy=f"build it with --target {board.chip}",
        )
    return file


def _graph(
    path: Path, file: RknnFile, settings: RknnOptions, board: RockchipBoard, create: Callable[[], Lite]
) -> RknnGraphSession:
    shapes = read_shapes(settings.shapes, file)
    contexts: list[RknnContext] = []
    try:
        for mask in masks_of_contexts(settings.contexts, settings.core_mask, board):
            contexts.append(RknnContext(path, file, core_mask=mask, board=board, create=create))
    except BaseException:
        for context in contexts:
            context.close()
        raise
    return RknnGraphSession(path, file, contexts, pass_through=settings.pass_through, chip=board.chip, shapes=shapes)


def _info(path: Path, file: RknnFile) -> DecoderInfo:
    """The borders of a decoder graph, of which a .rknn file has no settings: those are the engine's options."""
    return DecoderInfo(
        path,
        inputs={tensor.name: tensor.shape for tensor in file.inputs},
        outputs={tensor.name: tensor.shape for tensor in file.outputs},
    )
