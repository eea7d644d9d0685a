"""ServedEncoder: what a server needs of a model that turns texts into vectors."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

from chipwise.bundle import Bundle
from chipwise.bundle.manifest import GRAPH, SPECIAL_TOKENS, TOKENIZER
from chipwise.bundle.self_test import Turn
from chipwise.engine.graph_session import GraphSession
from chipwise.engine.isolated import Isolation
from chipwise.engine.text_encoder import TextEncoder, output_of
from chipwise.errors import BundleError
from chipwise.model.tokenizer import Tokenizer
from chipwise.serve.models.bundle_facts import created_s, fingerprint_of

# Bundles of before they told their limit: that of BERT.
_USUAL_TOKENS = 512


@dataclass(frozen=True)
class ServedEncoder:
    """An open encoder.

    Attributes:
        name: What clients call it.
        session: Its graph. The server closes it.
        encoder: What runs it.
        tokenizer: Its tokenizer.
        width: Dimensions of its vectors.
        max_tokens: The longest text, in tokens with its frame.
        created_s: When it was built, in seconds since 1970.
        emulates: Name of the chip whose arithmetic it emulates; None if it is what is deployed.
        fingerprint: Changes whenever its answers might; None if unknown.
    """

    name: str
    session: GraphSession
    encoder: TextEncoder
    tokenizer: Tokenizer
    width: int
    max_tokens: int
    created_s: int
    emulates: str | None = None
    fingerprint: str | None = None


def holds_encoder(bundle: Bundle) -> bool:
    """Whether a bundle holds a model that turns texts into vectors. Reads none of its files."""
    config = bundle.manifest.model.config
    inputs, outputs = config.get("inputs", {}), config.get("outputs", {})
    needed = {GRAPH, TOKENIZER, SPECIAL_TOKENS}
    return needed <= bundle.files.keys() and output_of(tuple(inputs), tuple(outputs)) is not None


def open_encoder(
    bundle: Bundle, *, threads: int | None = None, isolation: Isolation | None = None, turn: Turn = nullcontext
) -> ServedEncoder:
    """Open an encoder, and see by its self-test and by a padded text that it does what it should.

    Args:
        bundle: The bundle.
        threads: Threads of the engine; None leaves it to the bundle or the engine.
        isolation: How the engine's process is kept; None runs it in this one.
        turn: What each run is in.

    Raises:
        BundleError: The bundle holds none, or the self-test failed.
        EngineError: It cannot be loaded.
        InputError: It counts padding in.
    """
    where, tokenizer = str(bundle.path), bundle.tokenizer
    if tokenizer is None or not holds_encoder(bundle):
        raise BundleError(
            "the bundle holds no encoder of texts", where=where, remedy="name a bundle built from a sentence encoder"
        )
    config = bundle.manifest.model.config
    rows, tokens = (size if isinstance(size, int) else None for size in config["inputs"]["input_ids"])
    created = created_s(bundle)
    session = bundle.open_graph(threads=threads, isolation=isolation, turn=turn)
    try:
        encoder = TextEncoder(session, where, rows=rows, tokens=tokens)
        some = tokenizer.encode_framed("a lamp")[:8]
        with turn():
            encoder.refuse_padding(some)
            width = int(encoder.encode([some]).shape[1])
    except BaseException:
        session.close()
        raise
    limits = [tokens, config.get("max_positions"), config.get("max_seq_length")]
    known = [limit for limit in limits if isinstance(limit, int) and limit > 0]
    longest = min(known, default=_USUAL_TOKENS)
    manifest = bundle.manifest
    return ServedEncoder(
        manifest.name, session, encoder, tokenizer, width, longest, created, manifest.emulates,
        fingerprint_of(bundle),
    )  # fmt: skip
