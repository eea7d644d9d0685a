"""Which queries calibrate and which are verified."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chipwise.build import BuildOptions
from chipwise.build.texts import Texts, gather_texts, general_queries
from chipwise.errors import QueryFileError
from chipwise.model.importer import load_model

HOME_AGENT = Path(__file__).parents[2] / "models" / "home_agent"


def texts_of(tmp_path: Path, prompts: list[str], *, cases: int = 100, context: int = 512) -> Texts:
    model = load_model(str(HOME_AGENT))
    queries = tmp_path / "queries.jsonl"
    queries.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in prompts), encoding="utf-8")
    options = BuildOptions(str(HOME_AGENT), "host", tmp_path / "out", queries=queries, max_cases=cases)
    assert model.tokenizer is not None
    return gather_texts(options, model.tokenizer, model.chat_template, context)


def test_enough_general_queries_for_a_hundred_cases_of_their_own() -> None:
    texts = [query.prompt for query in general_queries()]
    assert len(texts) == len(set(texts)) >= 132


def test_a_model_without_a_chat_template_is_asked_the_general_queries_as_they_are(tmp_path: Path) -> None:
    model = load_model(str(HOME_AGENT))
    assert model.tokenizer is not None
    options = BuildOptions(str(HOME_AGENT), "host", tmp_path / "out", max_cases=5)
    found = gather_texts(options, model.tokenizer, None, 512)
    first = model.tokenizer.encode(general_queries()[0].prompt or "")
    assert found.prompts[0].tokens == tuple(first)


def test_queries_are_shared_out(tmp_path: Path) -> None:
    found = texts_of(tmp_path, [f"Turn on lamp {i}" for i in range(90)], cases=40)
    assert (len(found.cases), len(found.calibration), found.shared) == (40, 32, False)
    verified = {prompt.tokens for prompt in found.prompts}
    assert not verified & set(found.calibration)


def test_few_queries_serve_both(tmp_path: Path) -> None:
    found = texts_of(tmp_path, ["Turn on the lamp"])
    assert (len(found.cases), len(found.calibration), found.shared) == (1, 1, True)


def test_long_prompts_calibrate_with_fewer(tmp_path: Path) -> None:
    found = texts_of(tmp_path, [f"{i} " + "lamp on, " * 330 for i in range(60)], cases=20, context=4096)
    tokens = sum(map(len, found.calibration))
    assert 3 <= len(found.calibration) < 32
    assert tokens <= 8192


def test_queries_longer_than_the_context_are_left_out_and_counted(tmp_path: Path) -> None:
    found = texts_of(tmp_path, ["Turn on the lamp"] * 6 + ["lamp on, " * 100] * 3, context=64)
    assert (found.skipped, len(found.cases)) == (3, 4)
    longer_first = texts_of(tmp_path, ["lamp on, " * 100] * 3 + ["Turn on the lamp"] * 6, context=64)
    assert (longer_first.skipped, longer_first.cases[0].id) == (3, "query-4")
    with pytest.raises(QueryFileError, match="longer than the context of 64 tokens"):
        texts_of(tmp_path, ["lamp on, " * 100], context=64)


def test_a_suite_is_what_is_verified_and_what_is_left_out_is_counted(tmp_path: Path) -> None:
    model = load_model(str(HOME_AGENT))
    assert model.tokenizer is not None
    options = BuildOptions(str(HOME_AGENT), "host", tmp_path / "out", suite=HOME_AGENT / "suite.jsonl", max_cases=100)
    found = gather_texts(options, model.tokenizer, model.chat_template, 512)
    assert (found.scored, found.general, len(found.cases), found.left_out) == (True, True, 100, 20)
