"""load_model: any reference to a model, read by the importer of its format."""

from __future__ import annotations

from pathlib import Path

from chipwise.errors import InputError
from chipwise.model.importer.gguf_file import load_gguf
from chipwise.model.importer.hub import PREFIX, fetch_model
from chipwise.model.importer.huggingface import load_huggingface
from chipwise.model.importer.onnx_file import load_onnx
from chipwise.model.model import Model

_ACCEPTED = "give a Hugging Face folder, a .gguf file, an .onnx file or hf:org/name"


def load_model(ref: str | Path, *, max_context: int | None = None) -> Model:
    """Read a model from wherever it is.

    Args:
        ref: A folder with config.json, a .gguf file, an .onnx file, or ``hf:org/name[@revision]``.
        max_context: Longest context that will be used, in tokens. It matters to models with longrope scaling
            (phi3 128k), which have one set of frequencies up to the original context and another beyond: by
            default the first, and ``max_positions`` is the original context.

    Raises:
        InputError: There is no such file, or it is no model.
        ModelFormatError: The model is truncated, incomplete, or of an unsupported kind.
    """
    if not str(ref).strip():
        # Path would take it for the folder one is in.
        raise InputError("MODEL is empty", remedy=_ACCEPTED)
    if str(ref).startswith(PREFIX):
        folder, name = fetch_model(str(ref))
        return load_huggingface(folder, max_context, name)
    path = Path(ref)
    if not path.exists():
        raise InputError("no such file or folder", where=str(ref), remedy=_ACCEPTED)
    if path.is_dir():
        if not (path / "config.json").exists():
            raise _no_model_folder(path)
        return load_huggingface(path, max_context)
    kind = path.suffix.lower()
    if kind == ".gguf":
        return load_gguf(path, max_context)
    if kind == ".onnx":
        return load_onnx(path)
    remedy = "give the folder it lies in" if kind == ".safetensors" else _ACCEPTED
    raise InputError(f"a {kind or 'nameless'} file is no model", where=str(path), remedy=remedy)


def _no_model_folder(folder: Path) -> InputError:
    models = sorted(file.name for kind in ("*.gguf", "*.onnx") for file in folder.glob(kind))
    remedy = f"give one of its files, e.g. {models[0]}" if models else _ACCEPTED
    return InputError("the folder has no config.json", where=str(folder), remedy=remedy)
