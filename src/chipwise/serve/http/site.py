"""Site: all that one server serves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from chipwise.serve.crew import Worker
from chipwise.serve.exchange import Exchange
from chipwise.serve.http.embeddings import Embeddings
from chipwise.serve.http.infer import Inference
from chipwise.serve.http.keys import Keys
from chipwise.serve.http.single_shot import SingleShot
from chipwise.serve.metrics import Metrics
from chipwise.serve.post import Post
from chipwise.serve.settings import ServeSettings
from chipwise.serve.tracing import Tracing


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
        embeddings: The encoder; None if none is served.
        inference: The graph; None if none is served.
        exchange: What exchanges the language model; None if nothing does.
        settings: The server's settings.
        tracing: Where requests are traced to; None if they are not.
    """

    metrics: Metrics
    worker: Worker
    keys: Keys | None = None
    chat: Post | None = None
    embeddings: Embeddings | None = None
    inference: Inference | None = None
    exchange: Exchange | None = None
    settings: ServeSettings = field(default_factory=ServeSettings)
    tracing: Tracing | None = None

    @property
    def models(self) -> tuple[Listed, ...]:
        """The models, the language model first."""
        return tuple(self._models())

    @property
    def shots(self) -> tuple[SingleShot, ...]:
        """What answers in one run."""
        return tuple(one.shot for one in (self.embeddings, self.inference) if one is not None)

    def close(self) -> None:
        """Send what is left of traces, once the worker has ended."""
        if self.tracing is not None:
            self.tracing.close()

    def _models(self) -> Iterator[Listed]:
        if self.chat is not None:
            service = self.chat.current
            yield Listed(service.names[0], service.model.created_s)
        if self.embeddings is not None:
            yield Listed(self.embeddings.model.name, self.embeddings.model.created_s)
        if self.inference is not None:
            yield Listed(self.inference.model.name, self.inference.model.created_s)
