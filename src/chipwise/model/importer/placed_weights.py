"""PlacedWeights: canonical weights, each found at a place in a file that names and packs them its own way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chipwise.errors import ModelFormatError
from chipwise.model.importer.raw_tensors import RawTensors
from chipwise.model.weights import Float32Array, WeightInfo


@dataclass(frozen=True)
class Place:
    """Where a canonical weight lies and what the file did to it.

    Attributes:
        tensor: The file's name of the tensor.
        start: First of the tensor's rows that belongs to the weight (packed projections).
        rows: How many rows belong to it; None for all from ``start``.
        add: Constant to add (1 for gemma's norms in safetensors).
        interleaved_heads: Number of heads whose two halves the file interleaves (q and k of llama in GGUF);
            None where rows lie in their own order.
    """

    tensor: str
    start: int = 0
    rows: int | None = None
    add: float = 0.0
    interleaved_heads: int | None = None


class PlacedWeights:
    """A WeightSource over the tensors of a file and a table of places."""

    def __init__(self, raw: RawTensors, places: Mapping[str, Place]) -> None:
        self._raw = raw
        self._places = dict(places)

    def names(self) -> Iterator[str]:
        """All canonical names."""
        return iter(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def info(self, name: str) -> WeightInfo:
        """Shape and storage of a weight.

        Raises:
            ModelFormatError: The file has no such weight.
        """
        place = self._place(name)
        raw = self._raw.infos[place.tensor]
        rows = self._row_count(place)
        return WeightInfo(name, (rows, *raw.shape[1:]), raw.stored_as, raw.nbytes * rows // raw.shape[0])

    def load(self, name: str) -> Float32Array:
        """The whole weight in float32.

        Raises:
            ModelFormatError: The file has no such weight, or it holds NaN or infinite values.
        """
        return self.load_rows(name, 0, self._row_count(self._place(name)))

    def load_rows(self, name: str, start: int, stop: int) -> Float32Array:
        """Rows ``start`` to ``stop`` in float32 (of a vector: its values).

        Raises:
            ModelFormatError: The file has no such weight, or it holds NaN or infinite values.
        """
        place = self._place(name)
        start, stop, _ = slice(start, stop).indices(self._row_count(place))
        first, last, order = self._source_rows(place, start, max(start, stop))
        values = self._raw.rows(place.tensor, place.start + first, place.start + last)
        if order is not None:
            values = values[order]
        if place.add:
            values += np.float32(place.add)
        with np.errstate(invalid="ignore"):
            total = np.sum(values, dtype=np.float64)
        if not np.isfinite(total):
            raise ModelFormatError(
                f"weight {name} ({place.tensor}) holds NaN or infinite values",
                where=self._raw.where,
                remedy="download the model again",
            )
        return values

    def raw_blocks(self, name: str) -> tuple[str, npt.NDArray[np.uint8]] | None:
        """Storage type and bytes of a weight, one row of quantization blocks an output row.

        None if the file stores plain numbers, or the weight is not the tensor as stored.
        """
        place = self._place(name)
        rows = self._row_count(place)
        first, last, order = self._source_rows(place, 0, rows)
        blocks = self._raw.blocks(place.tensor, place.start + first, place.start + last)
        if blocks is None or place.add:
            return None
        return self._raw.infos[place.tensor].stored_as, blocks if order is None else blocks[order]

    def _place(self, name: str) -> Place:
        place = self._places.get(name)
        if place is None:
            raise ModelFormatError(
                f"there is no weight {name}", where=self._raw.where, remedy="download the model again"
            )
        return place

    def _row_count(self, place: Place) -> int:
        return place.rows if place.rows is not None else self._raw.infos[place.tensor].shape[0] - place.start

    def _source_rows(self, place: Place, start: int, stop: int) -> tuple[int, int, npt.NDArray[np.intp] | None]:
        """The file's range of rows that covers these, and their order in it (None: as they lie)."""
        if place.interleaved_heads is None or start == stop:
            return start, stop, None
        head = self._row_count(place) // place.interleaved_heads
        first, last = start // head * head, -(-stop // head) * head
        row = np.arange(start, stop)
        half, channel = np.divmod(row % head, head // 2)
        return first, last, row // head * head + 2 * channel + half - first
