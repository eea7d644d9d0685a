"""The part of `chipwise verify` that judges servers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from chipwise.cli.progress import cases_bar
from chipwise.report.report import NotRun, Report
from chipwise.target.host.machine import look
from chipwise.verify.chat_client import ChatClient, same_server
from chipwise.verify.environment import hardware
from chipwise.verify.gate import judge
from chipwise.verify.semantic.index import with_semantic_drift
from chipwise.verify.semantic.locate import installed_model, open_embedder
from chipwise.verify.served import verify_served
from chipwise.verify.suite import Suite
from chipwise.verify.thresholds import Thresholds

API_KEY = "OPENAI_API_KEY"
"""The environment variable that holds the key of a server that asks for one."""

REFERENCE_API_KEY = "OPENAI_REFERENCE_API_KEY"
"""That of the reference's server, if it is another: one provider's key is no other's business."""


@dataclass(frozen=True)
class Served:
    """A server to judge.

    Attributes:
        url: Its base URL.
        model: The model's name there; None takes the first it lists.
        reference_url: A server to compare it with.
        reference_model: The model's name there; None likewise.
        streams: Requests under way at once.
    """

    url: str
    model: str | None
    reference_url: str | None
    reference_model: str | None
    streams: int


def _reference(served: Served, key: str | None) -> ChatClient | None:
    if served.reference_url is None:
        return None
    own = os.environ.get(REFERENCE_API_KEY) or (key if same_server(served.url, served.reference_url) else None)
    return ChatClient(
        served.reference_url,
        model=served.reference_model,
        api_key=own,
        key_name=REFERENCE_API_KEY,
        option="--reference-url",
    )


def server_report(suite: Suite, served: Served, overrides: Mapping[str, float], embeddings: Path | None) -> Report:
    """Run a suite on a server, beside a second one if there is one.

    Raises:
        InputError: A server is not reached, or a threshold is none.
        EngineError: A server fails.
    """
    thresholds = Thresholds().with_overrides(suite.gate).with_overrides(overrides)
    key = os.environ.get(API_KEY)
    candidate = ChatClient(served.url, model=served.model, api_key=key, key_name=API_KEY)
    reference = _reference(served, key)
    model = embeddings or installed_model()
    with ExitStack() as stack:
        embedder = stack.enter_context(open_embedder(model)) if reference and model else None
        progress = stack.enter_context(cases_bar(len(suite.cases)))
        quality = verify_served(suite.cases, candidate, reference=reference, streams=served.streams, progress=progress)
        if embedder:
            quality = with_semantic_drift(quality, embedder)
    provenance = {"server": served.url, "suite sha256": suite.sha256}
    if reference:
        provenance["reference server"] = f"{reference.url}, model {reference.model}"
    return Report(
        title=f"{candidate.model}, suite {suite.name}",
        target="server",
        model=candidate.model,
        recipe="served",
        verdicts=judge(quality, thresholds),
        quality=quality,
        certainty=thresholds.certainty,
        not_run=(NotRun("drift of probabilities", "a server gives answers, not its logits"),),
        hardware=hardware(look()),
        provenance=provenance,
    )
