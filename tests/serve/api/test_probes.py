from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.serve.fakes import null_model, says
from tests.serve.live import Live, live


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    with live(null_model(next_token=says("ok"))) as running:
        yield running


def test_models(server: Live) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        models = client.models.list().data
        assert [(m.id, m.object, m.owned_by, m.created) for m in models] == [
            ("null-bytes", "model", "chipwise", 1_700_000_000)
        ]
        assert client.models.retrieve("null-bytes").id == "null-bytes"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("gpt-4")


def test_health(server: Live) -> None:
    response = server.http.get("/health")
    assert response.status_code == 200
    assert response.json() == {"status": "ok", "model": "null-bytes"}


def test_slots_are_those_that_may_run() -> None:
    # As many requests at once are what the number that runs is held against: those that gave way do not run.
    with live(null_model(6), reserved_slots=1, parking_slots=2) as server:
        assert server.metric("chipwise_slots") == 4


def test_the_docs_name_every_metric_there_is_and_no_other() -> None:
    root = Path(__file__).parents[3]
    sources = "".join(path.read_text("utf-8") for path in (root / "src/chipwise/serve").rglob("*.py"))
    table = (root / "docs/serving.md").read_text("utf-8").partition("\n## Metrics\n")[2].partition("\n## ")[0]
    made = {re.sub("_total$", "", name) for name in re.findall(r'"(chipwise_[a-z_]+)"', sources)}
    told = {re.sub("_(total|info)$", "", name) for name in re.findall(r"`(chipwise_[a-z_]+)", table)}
    assert made == told
    assert len(made) > 40


def test_metrics(server: Live) -> None:
    server.http.post("/v1/completions", json={"prompt": "go\n", "temperature": 0})
    response = server.http.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    names = {line.split()[2] for line in response.text.splitlines() if line.startswith("# TYPE")}
    assert names >= {
        "chipwise_requests_total",
        "chipwise_queue_depth_requests",
        "chipwise_running_requests",
        "chipwise_slots",
        "chipwise_prompt_tokens_total",
        "chipwise_generated_tokens_total",
        "chipwise_time_to_first_token_seconds",
        "chipwise_inter_token_seconds",
        "chipwise_step_seconds",
        "chipwise_batch_size_rows",
        "chipwise_kv_used_tokens",
    }
    assert server.metric('chipwise_requests_total{outcome="stop"}') >= 1
