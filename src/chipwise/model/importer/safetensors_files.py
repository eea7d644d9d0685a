"""SafetensorsFiles: the tensors of one or several .safetensors files."""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  makes numpy know bfloat16, which safetensors asks it for
import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from chipwise.errors import ModelFormatError
from chipwise.model.importer.fields import read_json
from chipwise.model.importer.file_checks import check_file
from chipwise.model.importer.raw_tensors import RawInfo
from chipwise.model.weights import Float32Array

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
# What has been read stays in memory while the file is mapped, so it is mapped anew for every so many values.
_CHUNK_VALUES = 1 << 22

_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}


class SafetensorsFiles:
    """A RawTensors over a Hugging Face folder. Files are mapped for one call at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, Path] = {}
        self._infos: dict[str, RawInfo] = {}
        for path, promised in _files(folder).items():
            found = _read_infos(path)
            if missing := sorted(promised - found.keys()):
                raise ModelFormatError(
                    f"the file lacks {missing[0]}, which {_INDEX} says it holds",
                    where=str(path),
                    remedy="download the model again",
                )
            self._infos |= found
            self._files |= dict.fromkeys(found, path)

    @property
    def where(self) -> str:
        """The folder."""
        return str(self._folder)

    @cached_property
    def infos(self) -> dict[str, RawInfo]:
        """Every tensor by the file's name."""
        return self._infos

    def rows(self, name: str, start: int, stop: int) -> Float32Array:
        """Rows ``start`` to ``stop`` in float32.

        Raises:
            ModelFormatError: The tensor is of a type that is no plain floating point.
        """
        if self._infos[name].stored_as not in _BYTES:
            raise ModelFormatError(
                f"tensor {name} is stored as {self._infos[name].stored_as}; read are {', '.join(_BYTES)}",
                where=str(self._files[name]),
                remedy="use the model before it was quantized",
            )
        shape = self._infos[name].shape
        out = np.empty((stop - start, *shape[1:]), np.float32)
        step = max(1, _CHUNK_VALUES // math.prod(shape[1:]))
        for row in range(start, stop, step):
            end = min(row + step, stop)
            with _opened(self._files[name]) as file:
                out[row - start : end - start] = file.get_slice(name)[row:end]
        return out

    def blocks(self, name: str, start: int, stop: int) -> npt.NDArray[np.uint8] | None:
        """None: safetensors hold plain numbers."""
        return None


def _files(folder: Path) -> dict[Path, set[str]]:
    """The weight files of a folder, each with the tensors an index promises in it."""
    if (folder / _INDEX).exists():
        promised: dict[Path, set[str]] = {}
        for name, file in read_json(folder / _INDEX).section("weight_map").values.items():
            if not isinstance(file, str) or "/" in file or "\\" in file:
                raise ModelFormatError(
                    f"{name} lies in {file!r}, which is no file name",
                    where=str(folder / _INDEX),
                    remedy="download the model again",
                )
            promised.setdefault(folder / file, set()).add(name)
        if not promised:
            raise ModelFormatError(
                "the index names no weights", where=str(folder / _INDEX), remedy="download the file again"
            )
        return promised
    if (folder / _SINGLE).exists():
        return {folder / _SINGLE: set()}
    found = sorted(folder.glob("*.safetensors"))
    if len(found) == 1:
        return {found[0]: set()}
    raise _no_weights(folder, found)


def _no_weights(folder: Path, found: list[Path]) -> ModelFormatError:
    if found:
        return ModelFormatError(
            f"several .safetensors files, but no {_INDEX}", where=str(folder), remedy="download the index too"
        )
    others = sorted({path.name for pattern in ("*.bin", "*.pth", "*.gguf", "*.onnx") for path in folder.glob(pattern)})
    if not others:
        return ModelFormatError("there are no .safetensors files", where=str(folder), remedy="download the weights too")
    remedy = (
        "give that file"
        if others[0].endswith(("gguf", "onnx"))
        else "save the model again with safe_serialization=True"
    )
    return ModelFormatError(
        f"there are no .safetensors files, only {', '.join(others[:3])}", where=str(folder), remedy=remedy
    )


def _read_infos(path: Path) -> dict[str, RawInfo]:
    infos: dict[str, RawInfo] = {}
    with _opened(path) as file:
        for name in file.keys():  # noqa: SIM118  the file handle is no mapping
            part = file.get_slice(name)
            shape = tuple(part.get_shape())
            dtype = part.get_dtype()
            infos[name] = RawInfo(shape, dtype, math.prod(shape) * _BYTES.get(dtype, 1))
    return infos


def _opened(path: Path) -> Any:
    check_file(path)
    try:
        return safe_open(path, framework="numpy")
    except (SafetensorError, OSError) as e:
        raise ModelFormatError(
            f"the file is truncated or no safetensors file ({e})", where=str(path), remedy="download it again"
        ) from e
