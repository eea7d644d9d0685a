"""Sizes: what a model's weights took in float32, and what they take in a bundle, by scheme."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import onnx_ir as ir

from chipwise.build.stored import StoredWeight
from chipwise.model.config import DecoderConfig
from chipwise.model.decoder import names
from chipwise.model.model import Model
from chipwise.model.scheme import TensorScheme
from chipwise.report.report import SchemeSize

OTHER = "small constants and padding"
"""What a weights file holds beside the weights."""

_FLOAT_BYTES = 4
# A file that is kept as it came has its tensors under its own names.
_GGUF = ("blk.", "token_embd.", "output")
# The same matrix in another precision, for a look-up or a product.
_TABLE = f"{names.EMBEDDING}.table"


def sizes(model: Model, stored: Mapping[str, StoredWeight], weights_bytes: int) -> tuple[SchemeSize, ...]:
    """The weights of each scheme before and after; the sums are the model's size in float32 and that of the file.

    Args:
        model: The model that was read.
        stored: The stored weights by name.
        weights_bytes: Size of the file that holds them; 0 if there is none.
    """
    if not weights_bytes:
        return ()
    groups: dict[str, SchemeSize] = {}
    seen: set[int] = set()
    for weight, values in _counted(model, stored):
        words = _words(weight.entry.scheme)
        one = groups.get(words, SchemeSize(words, 0, 0, 0))
        # Parts of equal content lie in the file once.
        new = {offset: length for offset, length in weight.ranges.items() if offset not in seen}
        seen |= new.keys()
        groups[words] = SchemeSize(
            words, one.tensors + 1, one.bytes_before + values * _FLOAT_BYTES, one.bytes_after + sum(new.values())
        )
    return _settled([groups[words] for words in sorted(groups)], float32_bytes(model), weights_bytes)


def float32_bytes(model: Model) -> int:
    """Bytes of all of a model's floating-point weights in float32, one that plays two parts once."""
    if model.weights is not None:
        tied = _tied(model)
        shapes = {name: model.weights.info(name).shape for name in model.weights.names()}
        return sum(math.prod(s) for name, s in shapes.items() if not (tied and name == names.LM_HEAD)) * _FLOAT_BYTES
    if model.onnx_path is None:
        return 0
    tensors = [value.const_value for value in ir.load(model.onnx_path).graph.initializers.values()]
    return sum(one.size for one in tensors if one is not None and one.dtype.is_floating_point()) * _FLOAT_BYTES


def _tied(model: Model) -> bool:
    return isinstance(model.config, DecoderConfig) and model.config.tied_embeddings


def _counted(model: Model, stored: Mapping[str, StoredWeight]) -> Iterator[tuple[StoredWeight, int]]:
    """Each stored weight, and how many of the model's values it holds: none if another holds the same."""
    decoder = isinstance(model.config, DecoderConfig)
    same = {names.EMBEDDING, _TABLE, *([names.LM_HEAD] if _tied(model) else [])}
    taken = False
    for name, weight in stored.items():
        # A decoder's tables of positions and masks are no part of the model's file.
        new = not decoder or name.startswith(("model.", names.LM_HEAD, *_GGUF))
        if name in same:
            new, taken = new and not taken, True
        yield weight, weight.values if new else 0


def _settled(groups: list[SchemeSize], before: int, after: int) -> tuple[SchemeSize, ...]:
    """The groups with what is left of both sums; constants that a rewrite folded count for nothing before."""
    excess = sum(one.bytes_before for one in groups) - before
    for i in sorted(range(len(groups)), key=lambda i: not groups[i].scheme.startswith("float")):
        cut = min(max(excess, 0), groups[i].bytes_before)
        groups[i] = replace(groups[i], bytes_before=groups[i].bytes_before - cut)
        excess -= cut
    rest = SchemeSize(OTHER, 0, max(-excess, 0), after - sum(one.bytes_after for one in groups))
    return (*groups, rest) if rest.bytes_before or rest.bytes_after else tuple(groups)


def _words(scheme: TensorScheme) -> str:
    if scheme.scale_dtype is None:
        return scheme.dtype
    grain = f"group {scheme.group_size}" if scheme.group_size else "a tensor" if scheme.axis is None else "a channel"
    zero = "" if scheme.symmetric else ", with zero_point"
    return f"{scheme.dtype}, {grain}{zero}"
