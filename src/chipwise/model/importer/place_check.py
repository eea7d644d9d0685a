"""Checks that the places found in a file are the weights the architecture needs, no less and no other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from chipwise.errors import ModelFormatError
from chipwise.model.importer.canonical_names import Shapes
from chipwise.model.importer.placed_weights import Place, PlacedWeights
from chipwise.model.importer.raw_tensors import RawTensors

_SHOWN = 3


def checked_weights(raw: RawTensors, places: Mapping[str, Place], shapes: Shapes) -> PlacedWeights:
    """The weights, once every one is known to be there in the shape the config says.

    Raises:
        ModelFormatError: Weights are missing or have another shape.
    """
    missing = [name for name, place in places.items() if place.tensor not in raw.infos]
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        raise ModelFormatError(
            f"weights are missing: {', '.join(missing[:_SHOWN])}{more}",
            where=raw.where,
            remedy="download the model again, every file of it",
        )
    for name, wanted in shapes.items():
        place = places[name]
        stored = raw.infos[place.tensor].shape
        if not _fits(place, stored, wanted):
            part = f"rows {place.start} to {place.start + place.rows} of " if place.rows is not None else ""
            raise ModelFormatError(
                f"weight {name} is {part}{place.tensor}, which has shape {stored}, but the config says {wanted}",
                where=raw.where,
                remedy="the weights and the config are not of the same model",
            )
    return PlacedWeights(raw, places)


def _fits(place: Place, stored: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    if len(stored) != len(wanted) or stored[1:] != wanted[1:]:
        return False
    rows = stored[0] - place.start if place.rows is None else place.rows
    return rows == wanted[0] and stored[0] >= place.start + rows


def refuse_strangers(raw: RawTensors, names: Iterable[str], known: set[str], layer_pattern: str) -> None:
    """Refuse a layer's tensor that nothing here would use: leaving it out would change the results.

    Args:
        raw: The file, for the message.
        names: The tensors of the language model.
        known: Those that are used or known to be of no effect.
        layer_pattern: What the name of a layer's tensor looks like.

    Raises:
        ModelFormatError: There is such a tensor.
    """
    layer = re.compile(layer_pattern)
    for name in names:
        if name not in known and layer.match(name):
            raise ModelFormatError(
                f"tensor {name} is none this architecture has here, and leaving it out would change the answers",
                where=raw.where,
                remedy="use a model without it",
            )
