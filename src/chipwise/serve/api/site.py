"""Site: all that one server serves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from chipwise.serve.exchange.exchange import Exchange
from chipwise.serve.exchange.post import Post
from chipwise.serve.exchange.service import Service
from chipwise.serve.http.keys import Keys
from chipwise.serve.http.single_shot import SingleShot
from chipwise.serve.inference.regions import Regions
from chipwise.serve.loop.crew import Worker
from chipwise.serve.models.served_encoder import ServedEncoder
from chipwise.serve.models.served_graph import ServedGraph
from chipwise.serve.observe.metrics import Metrics
from chipwise.serve.observe.tracing import Tracing
from chipwise.serve.settings import ServeSettings


@dataclass(frozen=True)
class Listed:
    """A model as clients see it in the list.

    Attributes:
        name: Its name.
        created_s: When it was built, in seconds since 1970.
    """

    name: str
    created_s: int


@dataclass(frozen=True)
class Site:
    """What is behind the routes.

    Attributes:
        metrics: What is counted.
        worker: All that works.
        keys: Who may ask; None lets everybody.
        chat: The language model's post; None if none is served.
        embeddings: The encoder's; None if none is served.
        inference: The graph's; None if none is served.
        exchange: What exchanges those that hold the posts; None if nothing does.
        settings: The server's settings.
        tracing: Where requests are traced to; None if they are not.
        regions: The shared memory that tensors may lie in; None if they may not.
    """

    metrics: Metrics
    worker: Worker
    keys: Keys | None = None
    chat: Post[Service] | None = None
    embeddings: Post[SingleShot[ServedEncoder]] | None = None
    inference: Post[SingleShot[ServedGraph]] | None = None
    exchange: Exchange | None = None
    settings: ServeSettings = field(default_factory=ServeSettings)
    tracing: Tracing | None = None
    regions: Regions | None = None

    @property
    def models(self) -> tuple[Listed, ...]:
        """The models, the language model first."""
        return tuple(self._models())

    @property
    def shots(self) -> tuple[SingleShot[Any], ...]:
        """What answers new requests in one run."""
        return tuple(post.current for post in (self.embeddings, self.inference) if post is not None)

    def close_models(self) -> None:
        """Give the memory of all models back, once the worker has ended."""
        for post in (self.chat, self.embeddings, self.inference):
            if post is not None:
                post.close()

    def close(self) -> None:
        """Send what is left of traces, once the worker has ended."""
        if self.tracing is not None:
            self.tracing.close()

    def _models(self) -> Iterator[Listed]:
        if self.chat is not None:
            service = self.chat.current
            yield Listed(service.names[0], service.model.created_s)
        for shot in self.shots:
            yield Listed(shot.names[0], shot.model.created_s)
