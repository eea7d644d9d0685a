from __future__ import annotations

import numpy as np
import pytest

from chipwise.errors import InputError
from chipwise.serve.exchange.make_service import make_service
from chipwise.serve.request.priority import Priority
from chipwise.serve.request.ring import Ring
from chipwise.serve.settings import ServeSettings
from tests.serve.fakes import EOS, alone, null_model, says, text_of
from tests.serve.live import live
from tests.serve.loop.test_runner import Bench

RING = Ring(context=32, sinks=4)


def expected(prompt: list[int], count: int) -> list[int]:
    """What a client gets that sends, whenever the context is full, what stays as a new prompt."""
    said: list[int] = []
    held = RING.cut(np.array(prompt)).tolist()
    while len(said) < count and EOS not in said:
        part = alone(held, min(count - len(said), RING.context + 1 - len(held)))
        said += part
        held = [*RING.cut(np.array([*held, *part[:-1]])).tolist(), part[-1]]
    return said


def test_what_stays_are_the_first_and_the_newest() -> None:
    assert RING.cut(np.arange(31)).tolist() == list(range(31))
    assert RING.cut(np.arange(32)).tolist() == [0, 1, 2, 3, *range(20, 32)]
    assert RING.cut(np.arange(1000)).tolist() == [0, 1, 2, 3, *range(988, 1000)]


@pytest.mark.parametrize("n_prompt", [1, 20, 31, 32, 90])
def test_an_answer_goes_on_as_if_what_stays_had_been_sent(n_prompt: int) -> None:
    prompt = [(7 * i + n_prompt) % 256 for i in range(n_prompt)]
    bench = Bench(n_slots=2, max_context=32, max_step_tokens=16)
    ticket = bench.ask(prompt, 150, ring=RING)
    bench.run()
    said = expected(prompt, 150)
    assert bench.text(ticket) == text_of(said)
    assert bench.events[ticket][-1].completion_tokens == len(said)


def test_others_are_not_disturbed_and_it_may_be_displaced_meanwhile() -> None:
    bench = Bench(n_slots=2, max_context=32, max_step_tokens=16)
    prompts = [[i, 50 + i, 100 + i] for i in range(3)]
    rings = [bench.ask(prompt, 120, ring=RING, priority=Priority.BACKGROUND) for prompt in prompts]
    for _ in range(70):
        bench.runner.step()
    plain = bench.ask(prompts[0], 20, priority=Priority.EMERGENCY)
    bench.run()
    assert bench.text(plain) == text_of(alone(prompts[0], 20))
    for ticket, prompt in zip(rings, prompts, strict=True):
        assert bench.text(ticket) == text_of(expected(prompt, 120))


def test_over_http_texts_outgrow_the_context_only_where_that_is_set() -> None:
    body = {"prompt": "y" * 40 + "\n", "max_tokens": 100, "temperature": 0}
    with live(null_model(2, 32, next_token=lambda history: ord("x")), sinks=4) as server:
        answer = server.http.post("/v1/completions", json=body).json()
        assert answer["choices"][0]["text"] == "x" * 100
        assert answer["usage"]["prompt_tokens"] == 41
    with live(null_model(2, 32, next_token=says("ok"))) as server:
        refused = server.http.post("/v1/completions", json=body)
        assert refused.status_code == 400
        assert "41 tokens, the context holds 32" in refused.json()["error"]["message"]
        assert "--sinks" in refused.json()["error"]["message"]


def test_sinks_that_leave_no_room_are_refused() -> None:
    with pytest.raises(InputError, match="keep fewer than half"):
        make_service(null_model(2, 32), ServeSettings(sinks=16), when_broken=lambda: None)
