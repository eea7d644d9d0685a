"""The files beside the home-agent weights agree with the generators and with the weights."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from chipwise.verify.domains import generate, split_of

FOLDER = Path(__file__).parents[3] / "models" / "home_agent"


def records(name: str) -> list[dict]:
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def test_queries_and_suite_are_held_out_and_disjoint() -> None:
    queries, suite = records("queries.jsonl"), records("suite.jsonl")
    assert (len(queries), len(suite)) == (160, 120)
    assert {split_of(record["messages"]) for record in [*queries, *suite]} == {"heldout"}
    texts = [json.dumps(record["messages"]) for record in [*queries, *suite]]
    assert len(set(texts)) == len(texts)


def test_the_suite_is_what_the_generators_write_today() -> None:
    suite = records("suite.jsonl")
    for domain in ("home", "vehicle", "factory", "camera"):
        cases = {case.id: case for case in generate(domain, 70, 101, "heldout")}
        for record in (record for record in suite if record["domain"] == domain):
            case = cases[record["id"]]
            assert record["messages"] == case.messages
            assert record["expected"] == case.expected
            assert tuple(record["keywords"]) == case.keywords


def test_the_suite_is_balanced() -> None:
    parts = Counter((record["domain"], record["lang"]) for record in records("suite.jsonl"))
    assert set(parts.values()) == {15}
    assert len(parts) == 8


def test_the_recorded_accuracy_meets_the_goal() -> None:
    figures = json.loads((FOLDER / "training.json").read_text(encoding="utf-8"))
    for measured in figures["accuracy"].values():
        assert measured["cases"] >= 1000
        assert measured["exact_match"] >= 0.97
        assert min(measured["by_part"].values()) >= 0.95


@pytest.mark.slow
def test_the_weights_answer_the_suite() -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = transformers.LlamaForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER)
    suite = records("suite.jsonl")
    right = 0
    for record in suite:
        text = tokenizer.apply_chat_template(record["messages"], add_generation_prompt=True, tokenize=False)
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            out = model.generate(ids, attention_mask=torch.ones_like(ids))
        right += tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True) == record["expected"]
    assert right >= 0.97 * len(suite)
