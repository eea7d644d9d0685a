"""Seat: a post, the bundle its holder came from, and how another one is opened for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias

from chipwise.bundle import Bundle
from chipwise.errors import BundleError
from chipwise.serve.exchange.post import H, Post
from chipwise.serve.models.memory_need import need_bytes, refuse_too_large
from chipwise.serve.models.served_encoder import holds_encoder
from chipwise.serve.models.served_graph import holds_graph
from chipwise.serve.turns.spare_time import SpareTime

Kind = Literal["chat", "embeddings", "infer"]
"""What is served: a language model, an encoder, or a plain graph."""

IN_WORDS: Mapping[Kind, str] = {"chat": "language model", "embeddings": "encoder", "infer": "plain graph"}

Open: TypeAlias = Callable[[Bundle, str | None, tuple[str, ...], H, SpareTime], H]
"""Opens a bundle's model: which form of it (None but of language models), what it may be called, the holder that it
takes over from, and when its parts may begin. What it raises leaves nothing open."""


def kind_of(bundle: Bundle) -> Kind:
    """What a bundle holds."""
    return "embeddings" if holds_encoder(bundle) else "infer" if holds_graph(bundle) else "chat"


def _nothing(_: Bundle) -> None:
    """Tells nobody."""


@dataclass(eq=False)
class Seat(Generic[H]):
    """A post, the bundle its holder came from, and how another one is opened for it.

    Attributes:
        kind: What is served there.
        post: The post.
        bundle: The bundle.
        open: Opens another.
        need: What the model of a bundle, or of a variant, takes, in bytes: an estimate from above.
        on_bundle: Called with a bundle once it is served for the first time.
    """

    kind: Kind
    post: Post[H]
    bundle: Bundle
    open: Open[H]
    need: Callable[[Bundle], int] = lambda bundle: need_bytes(bundle, 0, 0)
    on_bundle: Callable[[Bundle], None] = _nothing

    @property
    def name(self) -> str:
        """What the holder is listed as."""
        return self.post.current.names[0]

    def refuse_kind(self, bundle: Bundle) -> None:
        """Check that a bundle holds what can be served here.

        Raises:
            BundleError: It holds something else.
        """
        # An encoder is a graph, too.
        fits = holds_graph(bundle) if self.kind == "infer" else kind_of(bundle) == self.kind
        if not fits:
            raise BundleError(
                f"the bundle holds a model of another kind ({IN_WORDS[kind_of(bundle)]}) than {self.name!r}, "
                f"which it would replace ({IN_WORDS[self.kind]})",
                where=str(bundle.path),
                remedy="name a bundle of the same kind",
            )

    def names_with(self, bundle: Bundle) -> tuple[str, ...]:
        """What requests may call a bundle's model: its own name, then all that were served here before."""
        name = bundle.manifest.name
        return (name, *(known for known in self.post.current.names if known != name))

    def open_beside(
        self, bundle: Bundle, variant: str | None, names: tuple[str, ...], free_bytes: float | None, spare: SpareTime
    ) -> H:
        """Open a bundle's model, or a variant of it, beside the holder. It does not take over yet.

        Args:
            bundle: The bundle.
            variant: Which form of its model; None for the one it was built as.
            names: What requests may call it, the one for lists first.
            free_bytes: What programs can still take; None if nobody knows.
            spare: When the parts of the opening may begin.

        Raises:
            UnavailableError: It does not fit into memory beside the holder.
            ChipwiseError: It cannot be opened, or fails its self-test.
        """
        form = bundle if variant is None else bundle.variants[variant]
        refuse_too_large(form, self.need(form), free_bytes)
        return self.open(bundle, variant, names, self.post.current, spare)
