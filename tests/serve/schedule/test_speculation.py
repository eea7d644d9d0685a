"""Whether guessing pays: on a virtual clock, where steps cost what they are said to cost."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from chipwise.serve.request.priority import Priority
from chipwise.serve.schedule.chunks import ChunkRule
from chipwise.serve.schedule.speculation import make_speculation
from chipwise.serve.speculation.acceptance import Acceptance
from chipwise.serve.speculation.draft import NO_DRAFT, Draft
from chipwise.serve.text.vocabulary import Vocabulary
from tests.serve.fakes import byte_tokenizer, null_model, says
from tests.serve.live import live
from tests.serve.speculation.wild import WildBench, null_session

# As measured with a 4-bit model on a CPU: a further token costs a third of a step.
STEP_S, EXTRA_S = 0.010, 0.0035
LOG = "12:00 pump 3 pressure 4.2 bar ok\n12:01 pump 3 pressure 4.3 bar ok\n12:02 pump 3 pressure 4.2 bar ok\n"


def seconds(
    next_token: Callable[[Sequence[int]], int],
    prompts: list[str],
    most: int,
    *,
    speculate: bool,
    extra_s: float = EXTRA_S,
    **rules,
) -> tuple[float, WildBench, list[str]]:
    """How long all take together, from the first token on."""
    session = null_session(
        4, 4096, next_token=next_token, decode_s=STEP_S, draft_s=extra_s, max_draft_tokens=64, max_step_tokens=512
    )
    tokenizer = byte_tokenizer()
    speculation = make_speculation(session, tokenizer, Vocabulary(tokenizer)) if speculate else None
    bench = WildBench(session, speculation, **rules)
    tickets = [bench.ask(list(prompt.encode()), most) for prompt in prompts]
    bench.run()
    return session.clock(), bench, [bench.text(ticket) for ticket in tickets]


def gain(next_token, prompts: list[str], most: int, **options) -> tuple[float, WildBench]:
    plain_s, _, expected = seconds(next_token, prompts, most, speculate=False, **options)
    guessed_s, bench, found = seconds(next_token, prompts, most, speculate=True, **options)
    assert found == expected
    return plain_s / guessed_s, bench


def erratic(seed: int, alphabet: int) -> Callable[[Sequence[int]], int]:
    """Says one of a few tokens by a hash: every pair of tokens came before, and what followed means nothing."""
    return lambda history: 97 + hash((seed, *history)) % alphabet


def test_what_repeats_itself_comes_faster() -> None:
    found, bench = gain(says(LOG), [LOG + "go\n"], 300)
    assert found > 1.7
    assert bench.metrics.value("chipwise_accepted_tokens_total") > 200


@pytest.mark.parametrize("alphabet", [2, 4, 16])
def test_a_text_that_cannot_be_guessed_costs_next_to_nothing(alphabet: int) -> None:
    chance = random.Random(alphabet)
    prompt = "".join(chr(97 + chance.randrange(alphabet)) for _ in range(400))
    found, bench = gain(erratic(1, alphabet), [prompt], 1500)
    assert found > 0.97
    assert bench.metrics.value("chipwise_speculated_tokens_total") > 0


def test_one_who_could_not_be_guessed_is_tried_again() -> None:
    """A text without sense for 700 tokens, then one that repeats itself."""
    sense = says(LOG * 9, after="!")

    def next_token(history: Sequence[int]) -> int:
        return 97 + hash(tuple(history)) % 3 if len(history) < 1100 else 33 if len(history) == 1100 else sense(history)

    found, bench = gain(next_token, ["".join(random.Random(5).choices("abc", k=400))], 1300)
    assert found > 1.15
    assert bench.metrics.value("chipwise_accepted_tokens_total") > 300


def test_tokens_that_cost_as_much_as_steps_are_not_guessed_for_long() -> None:
    found, bench = gain(says(LOG), [LOG + "go\n"], 1000, extra_s=1.2 * STEP_S)
    assert found > 0.97
    assert bench.metrics.value("chipwise_speculated_tokens_total") < 60


def test_rows_that_guess_share_a_step_with_rows_that_do_not() -> None:
    """One repeats itself, one cannot be guessed; both stay what they are, and the first is what pays."""

    def next_token(history: Sequence[int]) -> int:
        return says(LOG)(history) if history[0] == 49 else 97 + hash(tuple(history)) % 4

    found, bench = gain(next_token, [LOG + "go\n", "abcdabcd" * 20], 300, extra_s=0.001)
    assert found > 1.1
    assert bench.metrics.value("chipwise_accepted_tokens_total") > 100


def test_a_session_checks_no_more_rows_than_it_takes() -> None:
    session = null_session(3, next_token=says("abab" * 20), decode_s=STEP_S, draft_s=EXTRA_S)
    session.max_draft_rows = 1
    tokenizer, used = byte_tokenizer(), []
    bench = WildBench(session, make_speculation(session, tokenizer, Vocabulary(tokenizer)))
    step = session.step
    session.step = lambda batch: used.append((batch.rows, batch.used)) or step(batch)
    for _ in range(2):
        bench.ask([10], 40)
    bench.run()
    assert all(batch_used is None for rows, batch_used in used if rows > 1)
    session.close()


def test_a_step_with_guesses_keeps_within_its_time() -> None:
    """Once it is known what they cost: an urgent request is heard as soon as without them."""
    budget_s = 0.025
    longest: list[float] = []
    session = null_session(2, 2048, next_token=says(LOG), decode_s=STEP_S, draft_s=EXTRA_S, max_draft_tokens=64)
    tokenizer = byte_tokenizer()
    speculation = make_speculation(session, tokenizer, Vocabulary(tokenizer))
    bench = WildBench(session, speculation, chunks=ChunkRule(budget_s=budget_s, alert_budget_s=0.015))
    step = session.step

    def timed(batch):
        started_s = session.clock()
        output = step(batch)
        longest.append(session.clock() - started_s)
        return output

    session.step = timed
    bench.ask(list((LOG + "go\n").encode()), 200)
    bench.run()
    assert STEP_S < max(longest[20:]) <= budget_s
    longest.clear()
    bench.ask(list((LOG + "go\n").encode()), 200, priority=Priority.INTERACTIVE)
    bench.run()
    assert STEP_S < max(longest[1:]) <= 0.015


def test_acceptance_follows_what_it_sees() -> None:
    everybody = Acceptance()
    one = Acceptance(everybody)
    draft = Draft((1, 2, 3), ("long", "long", "short"))
    first, *_, last = one.expected(draft)
    assert 0 < first < last < 3
    for _ in range(30):
        one.learn(draft, 3)
    assert one.expected(draft)[-1] > 2.5
    # Others start from what was seen here.
    assert Acceptance(everybody).expected(draft)[-1] > 2.2
    for _ in range(30):
        one.learn(draft, 0)
    assert one.expected(draft)[-1] < 0.5
    assert one.expected(NO_DRAFT) == []


def test_over_http_it_is_on_unless_it_is_switched_off() -> None:
    body = {"prompt": LOG + "go\n", "max_tokens": 90, "temperature": 0}
    texts = []
    for speculate in (True, False):
        model = null_model(
            2, 1024, next_token=says(LOG), decode_s=STEP_S, draft_s=EXTRA_S, max_draft_tokens=32, max_step_tokens=512
        )
        with live(model, speculate=speculate) as server:
            answer = server.http.post("/v1/completions", json=body).json()
            metrics = server.http.get("/metrics").text
            assert ("chipwise_accepted_tokens_total" in metrics) is speculate
        texts.append((answer["choices"], answer["usage"]))
    assert texts[0] == texts[1]
