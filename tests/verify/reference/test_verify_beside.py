from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipwise.engine import Session
from chipwise.errors import EngineError
from chipwise.model.queries import Query
from chipwise.verify.case import Case
from chipwise.verify.generate import Prompt
from chipwise.verify.reference import key, verify_beside
from chipwise.verify.reference.key import reference_key
from chipwise.verify.reference.store import ReferenceStore
from chipwise.verify.reference.verify_beside import Beside, Reference
from tests.verify.fakes import TinySession, prompts_of
from tests.verify.words import word_tokenizer

TOKENIZER = word_tokenizer()
PROMPTS = [Prompt(tokens, 6) for tokens in prompts_of(3, 7)]
CASES = [Case(str(i), Query(prompt=f"case {i}")) for i in range(7)]


class Model:
    """A reference that counts how often it is opened."""

    def __init__(self, content: Any = "sound", *, engine: str = "onnxruntime", **options: Any) -> None:
        self.opened: list[TinySession] = []
        self.options = options
        self.reference = Reference(self.open, engine, {"files": content})

    @contextmanager
    def open(self) -> Iterator[Session]:
        self.opened.append(TinySession(**self.options))
        yield self.opened[-1]
        self.opened[-1].close()


def beside(model: Model, store: ReferenceStore | None, *, noise: float = 0.2, **options: Any) -> Beside:
    return verify_beside.verify_beside(
        CASES, PROMPTS, TOKENIZER, candidate=TinySession(noise=noise, **options), reference=model.reference, store=store
    )


@pytest.fixture
def store(tmp_path: Path) -> ReferenceStore:
    return ReferenceStore(tmp_path)


def test_the_second_run_opens_no_reference_and_finds_the_same(store: ReferenceStore) -> None:
    model = Model()
    plain, first, second = beside(model, None), beside(model, store), beside(model, store)
    assert len(model.opened) == 2
    assert all(session.closed for session in model.opened)
    # Every figure, to the last bit.
    assert plain.quality == first.quality == second.quality
    assert plain.quality.answers_changed > 0
    assert first.answers == "computed, and kept"
    assert second.answers.startswith("from the cache, computed 20")
    assert [run.cached for run in (plain, first, second)] == [False, False, True]


def test_another_candidate_is_compared_with_what_was_kept(store: ReferenceStore) -> None:
    model = Model()
    beside(model, store)
    for noise in (0.0, 0.4):
        assert beside(model, store, noise=noise).quality == beside(model, None, noise=noise).quality
    assert len(model.opened) == 3


def test_a_changed_reference_is_run(store: ReferenceStore) -> None:
    beside(Model("sound"), store)
    changed = Model("other weights", seed=5)
    assert beside(changed, store).quality == beside(changed, None).quality
    assert len(changed.opened) == 2


def test_another_shape_of_the_candidate_is_another_run(store: ReferenceStore) -> None:
    model = Model()
    for options in ({}, {"n_slots": 2}, {"max_step_tokens": 4}, {"max_context": 40}, {}):
        beside(model, store, **options)
    assert len(model.opened) == 4


@pytest.mark.parametrize("damage", [lambda data: data[:-3], lambda data: data[:900] + b"\xff\x00" + data[902:]])
def test_a_damaged_record_is_computed_anew_and_kept_again(store: ReferenceStore, damage: Any) -> None:
    model = Model()
    sound = beside(model, store)
    (path,) = store.folder.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert beside(model, store).quality == sound.quality
    assert len(model.opened) == 2
    assert beside(model, store).cached


def test_a_record_of_other_steps_is_computed_anew(store: ReferenceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    # A version that takes other steps, and a key that does not know of it.
    monkeypatch.setattr(verify_beside, "reference_key", lambda *given: "same")
    model, other = Model(), Model()
    beside(model, store, max_step_tokens=3)
    assert beside(other, store).quality == beside(other, None).quality
    assert not beside(model, store, max_step_tokens=3).cached


@pytest.mark.parametrize("fails", ["folder", "limit"])
def test_a_cache_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path, fails: str) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "cache" if fails == "folder" else tmp_path / "cache"
    store, model = ReferenceStore(folder, max_bytes=500), Model()
    for _ in range(2):
        run = beside(model, store)
        assert run.answers.startswith("computed; not kept: ")
        assert run.quality == beside(Model(), None).quality
    assert len(model.opened) == 2
    assert list(folder.glob("*")) == [] if fails == "limit" else True


def test_a_reference_that_fails_leaves_nothing(store: ReferenceStore) -> None:
    def spoil(logits: np.ndarray, batch: object) -> None:
        raise EngineError("the runtime failed")

    with pytest.raises(EngineError, match="the runtime failed"):
        beside(Model(spoil=spoil), store)
    assert list(store.folder.iterdir()) == []


def test_an_engine_of_unknown_versions_is_always_run(store: ReferenceStore) -> None:
    model = Model(engine="rknn")
    assert "not kept: what rknn runs on is not known" in beside(model, store).answers
    beside(model, store)
    assert len(model.opened) == 2


def test_the_key_holds_all_that_answers_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    content = {"files": {"decoder": "0" * 64, "tokenizer": "1" * 64}, "rendered by": "2" * 64, "opened": [3, 64, 2]}

    def made(given: dict[str, Any] = content, **changed: Any) -> str:
        fields = {"prompts": PROMPTS, "eos": (2,), "candidate": TinySession()} | changed
        return reference_key(given, fields["prompts"], fields["eos"], fields["candidate"])

    keys = {
        made(),
        made({**content, "files": {"decoder": "0" * 64, "tokenizer": "3" * 64}}),
        made({**content, "rendered by": None}),
        made({**content, "opened": [3, 64, 1]}),
        made(prompts=PROMPTS[:-1]),
        made(prompts=[replace(PROMPTS[0], max_tokens=7), *PROMPTS[1:]]),
        made(prompts=[replace(PROMPTS[0], tokens=(3,)), *PROMPTS[1:]]),
        made(eos=(2, 3)),
        made(candidate=TinySession(n_slots=4)),
    }
    assert len(keys) == 9
    assert made() == made()
    before = made()
    for name in ("versions", "engine_code", "_machine"):
        with monkeypatch.context() as patch:
            patch.setattr(key, name, lambda *given: ["another"])
            assert made() != before
