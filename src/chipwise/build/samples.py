"""Samples: what a graph is calibrated, proven and verified on, kept apart where there are enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import onnx_ir as ir

from chipwise.build.options import BuildOptions
from chipwise.build.sample_files import MappedFeeds, read_samples
from chipwise.build.texts import general_queries
from chipwise.check.symbolic import dim_symbols
from chipwise.errors import QueryFileError
from chipwise.model.encoder import names
from chipwise.model.queries import Query, read_queries
from chipwise.model.tokenizer import Tokenizer
from chipwise.rewrite.draw import draw_feeds
from chipwise.rewrite.pass_ import Feed
from chipwise.rewrite.passes.fix_shapes import length_for
from chipwise.rewrite.runner import with_rank

_TEXT_INPUTS = frozenset({names.INPUT_IDS, names.ATTENTION_MASK, names.TOKEN_TYPE_IDS})
DRAWN = 12
CALIBRATION = 64
_LONGEST = 512


@dataclass(frozen=True)
class Samples:
    """The samples of a build.

    Attributes:
        calibration: Those whose ranges set scales.
        held_out: Those it is verified on.
        source: Where they came from, for the report.
        real: Whether the user gave them.
        shared: Whether both are the same, for want of others.
        drawn: Whether they are random numbers, whose sizes say nothing about the user's.
        per_shape: How many of ``held_out`` are of each listed shape, which follow each other; empty for one shape.
    """

    calibration: Sequence[Feed]
    held_out: Sequence[Feed]
    source: str
    real: bool
    shared: bool
    drawn: bool = False
    per_shape: tuple[int, ...] = ()

    @property
    def held_out_by_shape(self) -> tuple[Sequence[Feed], ...]:
        """Those it is verified on, of each listed shape; all together where none are listed."""
        if not self.per_shape:
            return (self.held_out,)
        ends = list(accumulate(self.per_shape))
        return tuple(self.held_out[end - count : end] for count, end in zip(self.per_shape, ends, strict=True))

    def dims(self, graph: ir.Graph) -> dict[str, int]:
        """The sizes of the graph's symbolic dimensions in the first sample, by name or as ``input:axis``."""
        found: dict[str, int] = {}
        sample = self.calibration[0]
        for value in graph.inputs:
            for axis, dim in enumerate(value.shape or ()):
                if isinstance(dim, int) and dim >= 0:
                    continue
                size = int(np.shape(sample[str(value.name)])[axis])
                symbols = dim_symbols(dim)
                known = isinstance(dim, ir.SymbolicDim) and symbols == {dim.value}
                found[str(dim.value) if known and isinstance(dim, ir.SymbolicDim) else f"{value.name}:{axis}"] = size
        return found

    def fitting(self, graph: ir.Graph) -> Samples:
        """The same samples for a graph that was rewritten: without inputs that are gone, numbers as ``[1]``."""
        ranks = {str(value.name): len(value.shape or ()) for value in graph.inputs}

        def fit(feed: Feed) -> Feed:
            return {name: with_rank(np.asarray(feed[name]), rank) for name, rank in ranks.items()}

        return replace(self, calibration=MappedFeeds(self.calibration, fit), held_out=MappedFeeds(self.held_out, fit))


def gather_samples(
    options: BuildOptions,
    model: ir.Model,
    tokenizer: Tokenizer | None,
    *,
    multiple: int | None,
    longest: int = _LONGEST,
) -> Samples:
    """The user's samples; for a graph that reads tokens the user's queries or general ones; else drawn ones.

    Args:
        options: What the user gave.
        model: The graph.
        tokenizer: The tokenizer beside it, if there is one.
        multiple: What texts are padded to a common multiple of, for static graphs; None leaves each as it is.
        longest: The most tokens that the graph takes.

    Raises:
        InputError: A sample is wrong.
        QueryFileError: The queries are.
        RewriteError: There are no samples, and none can be drawn.
    """
    if options.samples is not None:
        return _shared_out(read_samples(options.samples, model.graph), options.samples.name, real=True, options=options)
    inputs = {str(value.name) for value in model.graph.inputs}
    if tokenizer is not None and names.INPUT_IDS in inputs and inputs <= _TEXT_INPUTS:
        queries = read_queries(options.queries) if options.queries else general_queries()
        feeds = text_feeds(queries, tokenizer, inputs, multiple=multiple, longest=longest)
        source = f"queries of {options.queries.name}" if options.queries else "general queries that come with chipwise"
        return _shared_out(feeds, source, real=options.queries is not None, options=options)
    if options.queries is not None:
        raise QueryFileError(
            "the graph reads no tokens, or has no tokenizer.json beside it", where=str(options.queries),
            remedy="give its inputs with --samples",
        )  # fmt: skip
    feeds = draw_feeds(model, options.dims, n=DRAWN)
    drawn = _shared_out(feeds, "drawn at random from the declared shapes", real=False, options=options)
    return replace(drawn, drawn=True)


def text_feeds(
    queries: Sequence[Query],
    tokenizer: Tokenizer,
    inputs: set[str],
    *,
    multiple: int | None,
    longest: int,
) -> list[Feed]:
    """The inputs of an encoder for texts, in the frame its tokenizer gives them.

    Args:
        queries: The texts; of a conversation the last message.
        tokenizer: The tokenizer.
        inputs: Names of the graph's inputs.
        multiple: All are padded on the right to the length that 95 % fit in, a multiple of this, and longer ones cut;
            None leaves each as long as it is.
        longest: The most tokens that the graph takes.
    """
    tokens = [tokenizer.encode_framed(_text(query))[:longest] for query in queries]
    tokens = [ids for ids in tokens if ids]
    if not tokens:
        raise QueryFileError("every query is empty", remedy="give queries with a text")
    width = None if multiple is None else min(longest, length_for([len(ids) for ids in tokens], multiple=multiple))
    pad = tokenizer.special.pad_id or 0
    feeds: list[Feed] = []
    for ids in tokens:
        kept = ids[: width or len(ids)]
        n = width or len(kept)
        row = np.full((1, n), pad, np.int64)
        row[0, : len(kept)] = kept
        mask = (np.arange(n) < len(kept)).astype(np.int64)[None]
        made = {names.INPUT_IDS: row, names.ATTENTION_MASK: mask, names.TOKEN_TYPE_IDS: np.zeros((1, n), np.int64)}
        feeds.append({name: array for name, array in made.items() if name in inputs})
    return feeds


def _text(query: Query) -> str:
    if query.prompt is not None:
        return query.prompt
    return str(query.messages[-1].get("content") or "") if query.messages else ""


def _shared_out(feeds: Sequence[Feed], source: str, *, real: bool, options: BuildOptions) -> Samples:
    """A third, at most ``max_cases``, to verify on, the rest to calibrate with; a lone sample serves for both."""
    held = min(options.max_cases, len(feeds) // 3)
    if not held:
        return Samples(feeds, feeds, source, real, shared=True)
    return Samples(feeds[held:][:CALIBRATION], feeds[:held], source, real, shared=False)
