from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chipwise.bundle import Bundle, open_bundle
from chipwise.errors import BundleError, UnavailableError
from chipwise.serve.exchange.post import Post
from chipwise.serve.exchange.seat import Seat, kind_of
from chipwise.serve.pipeline.pipeline import Pipeline
from chipwise.serve.pipeline.stage import Stage
from chipwise.serve.turns.spare_time import SpareTime
from chipwise.serve.turns.turns import Turns
from tests.serve.forms import write_form
from tests.serve.shot_forms import write_encoder, write_graph


@dataclass
class Holder:
    """Runs nothing."""

    names: tuple[str, ...]
    fingerprint: str | None = None
    loop: Pipeline = field(default_factory=lambda: Pipeline("none", [Stage("none", lambda values, _: values)]))

    @property
    def name(self) -> str:
        return self.names[0]

    def close(self) -> None:
        """Holds nothing."""


def never(bundle: Bundle, variant: str | None, names: tuple[str, ...], before: Holder, spare: SpareTime) -> Holder:
    pytest.fail("it was opened")


@pytest.fixture
def bundles(tmp_path: Path) -> dict[str, Bundle]:
    paths = (write_form(tmp_path / "c"), write_encoder(tmp_path / "e"), write_graph(tmp_path / "g"))
    return {kind: open_bundle(path) for kind, path in zip(("chat", "embeddings", "infer"), paths, strict=True)}


def test_what_a_bundle_holds(bundles: dict[str, Bundle]) -> None:
    assert {kind: kind_of(bundle) for kind, bundle in bundles.items()} == {kind: kind for kind in bundles}


def test_only_what_can_be_served_there_is_taken(bundles: dict[str, Bundle]) -> None:
    taken = {"chat": {"chat"}, "embeddings": {"embeddings"}, "infer": {"infer", "embeddings"}}
    for kind, served in bundles.items():
        seat = Seat(kind, Post(Holder(("it",))), served, never)
        for other, bundle in bundles.items():
            if other in taken[kind]:
                seat.refuse_kind(bundle)
            else:
                with pytest.raises(BundleError, match=r"a model of another kind .* than 'it', which it would replace"):
                    seat.refuse_kind(bundle)


def test_its_own_name_comes_first_and_none_twice(bundles: dict[str, Bundle]) -> None:
    seat = Seat("infer", Post(Holder(("b", "net", "a"))), bundles["infer"], never)
    assert seat.names_with(bundles["infer"]) == ("net", "b", "a")


def test_nothing_is_opened_that_does_not_fit(bundles: dict[str, Bundle]) -> None:
    before, opened = Holder(("net",)), Holder(("new",))
    seat = Seat("infer", Post(before), bundles["infer"], lambda *given: opened if given[3] is before else before)
    bundle = bundles["infer"]
    size = sum(entry.bytes for entry in bundle.manifest.engine_files.values())
    assert size > 0
    assert seat.need(bundle) == size + (64 << 20)
    for free in (None, float(seat.need(bundle))):
        assert seat.open_beside(bundle, None, ("net",), free, SpareTime(Turns())) is opened
    seat.open = never
    with pytest.raises(UnavailableError, match="net needs 67 MB"):
        seat.open_beside(bundle, None, ("net",), seat.need(bundle) - 1.0, SpareTime(Turns()))
