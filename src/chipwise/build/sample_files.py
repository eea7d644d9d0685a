"""Sample files: a graph's inputs from .npy and .npz files, read one sample at a time."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.check.symbolic import is_size
from chipwise.errors import InputError
from chipwise.rewrite.pass_ import Feed

Array = npt.NDArray[Any]
_KINDS = (".npz", ".npy")


class LazyFeeds(Sequence[Feed]):
    """Samples that are read when they are asked for and kept by nobody."""

    def __init__(self, loaders: Sequence[Callable[[], Feed]]) -> None:
        self._loaders = tuple(loaders)

    def __len__(self) -> int:
        return len(self._loaders)

    @overload
    def __getitem__(self, index: int) -> Feed: ...
    @overload
    def __getitem__(self, index: slice) -> LazyFeeds: ...
    def __getitem__(self, index: int | slice) -> Feed | LazyFeeds:
        if isinstance(index, slice):
            return LazyFeeds(self._loaders[index])
        return self._loaders[index]()

    def __iter__(self) -> Iterator[Feed]:
        return (load() for load in self._loaders)


class MappedFeeds(Sequence[Feed]):
    """Samples that are changed when they are asked for."""

    def __init__(self, feeds: Sequence[Feed], change: Callable[[Feed], Feed]) -> None:
        self._feeds, self._change = feeds, change

    def __len__(self) -> int:
        return len(self._feeds)

    @overload
    def __getitem__(self, index: int) -> Feed: ...
    @overload
    def __getitem__(self, index: slice) -> MappedFeeds: ...
    def __getitem__(self, index: int | slice) -> Feed | MappedFeeds:
        if isinstance(index, slice):
            return MappedFeeds(self._feeds[index], self._change)
        return self._change(self._feeds[index])

    def __iter__(self) -> Iterator[Feed]:
        return (self._change(feed) for feed in self._feeds)


def read_samples(path: Path, graph: ir.Graph) -> LazyFeeds:
    """The samples of a file or folder.

    A folder has one sample a file: ``.npz`` with an array an input by its name, or ``.npy`` for a graph of one input.
    A single file holds many: an array's leading axis is cut into pieces of the graph's batch (1 where it is symbolic),
    or into samples if it has one axis more than the input.

    Every file is looked at once, so that a wrong one is found before the work starts.

    Raises:
        InputError: There is no such file, it holds no arrays or none of this graph's, or one of the wrong shape.
    """
    inputs = {str(value.name): value for value in graph.inputs if value.name not in graph.initializers}
    if not path.exists():
        raise InputError("no such file or folder", where=str(path), remedy="give a folder or an .npz or .npy file")
    if path.is_file():
        found = _cut(_arrays(path, inputs), inputs, path)
    else:
        files = sorted(file for file in path.iterdir() if file.suffix in _KINDS)
        for file in files:
            _check(_arrays(file, inputs), inputs, file)
        found = LazyFeeds([_loader(file, inputs) for file in files])
    if not len(found):
        raise InputError("no samples in it", where=str(path), remedy="put .npz or .npy files there, one a sample")
    return found


def _loader(file: Path, inputs: Mapping[str, ir.Value]) -> Callable[[], Feed]:
    return lambda: _arrays(file, inputs)


def _arrays(path: Path, inputs: Mapping[str, ir.Value]) -> dict[str, Array]:
    """The arrays of a file by input."""
    if path.suffix not in _KINDS:
        raise InputError(f"a {path.suffix or 'nameless'} file", where=str(path), remedy="give .npz or .npy files")
    try:
        with path.open("rb") as stream:  # numpy leaves a file open that it cannot read
            loaded = np.load(stream, allow_pickle=False)
            arrays = {"": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as e:
        raise InputError(f"no arrays can be read ({e})", where=str(path), remedy="write it with numpy.savez") from e
    if path.suffix == ".npy" and len(inputs) == 1:
        arrays = {next(iter(inputs)): arrays.get("", np.empty(0))}
    missing, unknown = sorted(set(inputs) - set(arrays)), sorted(set(arrays) - set(inputs))
    if missing or unknown:
        said = f"has no array {missing[0]!r}" if missing else f"has an array {unknown[0]!r} that is no input"
        raise InputError(said, where=str(path), remedy=f"name the arrays {', '.join(inputs)}")
    bad = next((name for name, array in arrays.items() if array.dtype.kind not in "biuf"), None)
    if bad is not None:
        raise InputError(f"the array {bad} is of {arrays[bad].dtype}, not numbers", where=str(path))
    wild = next(
        (name for name, array in arrays.items() if array.dtype.kind == "f" and not np.isfinite(array).all()), None
    )
    if wild is not None:
        raise InputError(f"the array {wild} holds NaN or infinity", where=str(path), remedy="remove that sample")
    return arrays


def _check(arrays: Mapping[str, Array], inputs: Mapping[str, ir.Value], path: Path) -> None:
    for name, array in arrays.items():
        shape = inputs[name].shape
        if shape is None:
            continue
        fits = len(shape) == array.ndim and all(
            not is_size(dim) or dim == size for dim, size in zip(shape, array.shape, strict=True)
        )
        if not fits or not array.size:
            raise InputError(
                f"the array {name} is {list(array.shape)}, the input {_shape_text(shape)}", where=str(path),
                remedy="give samples in the input's shape",
            )  # fmt: skip


def _cut(arrays: Mapping[str, Array], inputs: Mapping[str, ir.Value], path: Path) -> LazyFeeds:
    pieces = {name: _pieces(array, inputs[name], name, path) for name, array in arrays.items()}
    counts = {name: len(found) for name, found in pieces.items()}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise InputError(f"not as many samples of every input: {said}", where=str(path))
    samples = [dict(zip(pieces, parts, strict=True)) for parts in zip(*pieces.values(), strict=True)]
    for sample in samples[:1]:
        _check(sample, inputs, path)
    return LazyFeeds([lambda sample=sample: sample for sample in samples])  # type: ignore[misc]


def _pieces(array: Array, value: ir.Value, name: str, path: Path) -> list[Array]:
    shape = value.shape
    if shape is None or array.ndim == len(shape) + 1:
        return list(array)
    if array.ndim != len(shape) or not array.ndim:
        raise InputError(
            f"the array {name} is {list(array.shape)}, the input {_shape_text(shape)}", where=str(path),
            remedy="stack the samples along the first axis",
        )  # fmt: skip
    first = shape[0]
    batch = first if isinstance(first, int) and first > 0 else 1
    if len(array) % batch:
        raise InputError(f"{len(array)} rows of {name} are no multiple of its batch of {batch}", where=str(path))
    return [array[start : start + batch] for start in range(0, len(array), batch)]


def _shape_text(shape: ir.Shape) -> str:
    return f"[{', '.join(str(dim) for dim in shape)}]"
