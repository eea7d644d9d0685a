"""ONNX files with their weights beside them: written one weight at a time, each distinct content once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from chipwise.files import write_atomic, writing
from chipwise.model.weights_file import WeightsFile

# Smaller tensors stay in the graph: runtimes read shapes and axes from there while they load it.
_INLINE_BYTES = 1024


@dataclass(frozen=True)
class TensorPlace:
    """Where a tensor lies in a weights file.

    Attributes:
        offset_bytes: Its first byte.
        length_bytes: Bytes it takes.
        dtype: Its ONNX type in words, e.g. ``FLOAT``.
        shape: Its shape.
    """

    offset_bytes: int
    length_bytes: int
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class SavedGraph:
    """A graph on disk.

    Attributes:
        path: The ONNX file.
        weights: The file with its weights, in the same folder; None if all of them are in the graph.
        tensors: The place of each initializer that lies in ``weights``, by name.
    """

    path: Path
    weights: Path | None
    tensors: Mapping[str, TensorPlace]


def save_graph(model: ir.Model, folder: Path, stem: str) -> SavedGraph:
    """Write ``stem.onnx`` and its weights, ``stem.bin``; see ``save_graphs``.

    Raises:
        OutputError: The disk is full, or the folder cannot be written.
    """
    return save_graphs({stem: model}, folder, f"{stem}.bin")[stem]


def save_graphs(models: Mapping[str, ir.Model], folder: Path, weights_name: str) -> dict[str, SavedGraph]:
    """Write graphs that share one weights file.

    Tensors of the same bytes are written once, whatever their names and shapes: a prefill and a decode graph share
    their weights, and a quantized embedding serves a gather and a product. Tensors are read one at a time, so memory
    stays at the largest of them. The models are as they were when this returns.

    Args:
        models: The graphs by the stem of their file.
        folder: Where the files go.
        weights_name: Name of the weights file.

    Raises:
        OutputError: The disk is full, or the folder cannot be written. Nothing half-written is left.
    """
    places, weights = _write_weights(models, folder / weights_name)
    saved: dict[str, SavedGraph] = {}
    try:
        for stem, model in models.items():
            path = folder / f"{stem}.onnx"
            with _external(model, places[stem], weights):
                write_atomic(path, ir.to_proto(model).SerializeToString())
            saved[stem] = SavedGraph(path, weights if places[stem] else None, places[stem])
    except BaseException:
        for path in [weights, *(graph.path for graph in saved.values())]:
            path.unlink(missing_ok=True)
        raise
    return saved


def _large(model: ir.Model) -> list[ir.Value]:
    values = [value for graph in model.graphs() for value in graph.initializers.values()]
    return [value for value in values if value.const_value is not None and value.const_value.nbytes >= _INLINE_BYTES]


def _write_weights(models: Mapping[str, ir.Model], path: Path) -> tuple[dict[str, dict[str, TensorPlace]], Path]:
    """Write the large tensors of all graphs; returns their places by graph and name, and the file."""
    if not any(_large(model) for model in models.values()):
        return {stem: {} for stem in models}, path
    with writing(path), WeightsFile(path) as weights:
        places = {
            stem: {str(value.name): _write(weights, value) for value in _large(model)} for stem, model in models.items()
        }
        return places, weights.commit()


def _write(weights: WeightsFile, value: ir.Value) -> TensorPlace:
    tensor = value.const_value
    if tensor is None:
        raise ValueError(f"{value.name} has no value")
    offset, length = weights.add(tensor)
    return TensorPlace(offset, length, tensor.dtype.name, tuple(int(n) for n in tensor.shape.numpy()))


@contextmanager
def _external(model: ir.Model, places: Mapping[str, TensorPlace], weights: Path) -> Iterator[None]:
    """Let the initializers point into the weights file for as long as the graph is serialized."""
    values = _large(model)
    tensors = [value.const_value for value in values]
    try:
        for value in values:
            place = places[str(value.name)]
            value.const_value = ir.ExternalTensor(
                weights.name,
                place.offset_bytes,
                place.length_bytes,
                ir.DataType[place.dtype],
                shape=ir.Shape(place.shape),
                name=str(value.name),
                base_dir=weights.parent,
            )
        yield
    finally:
        for value, tensor in zip(values, tensors, strict=True):
            value.const_value = tensor
