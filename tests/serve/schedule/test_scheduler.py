from __future__ import annotations

import numpy as np
import pytest

from chipwise.errors import OverloadedError
from chipwise.serve.kv.slots import Move
from chipwise.serve.request.limits import Limits
from chipwise.serve.request.priority import Priority
from chipwise.serve.request.request import Request
from chipwise.serve.request.sequence import Sequence
from chipwise.serve.schedule.ageing import Ageing
from chipwise.serve.schedule.chunks import ChunkRule
from chipwise.serve.schedule.scheduler import NO_LIMITS, Scheduler, SchedulerRules, Step
from chipwise.serve.text.sampling import SamplingParams

EMERGENCY, INTERACTIVE, NORMAL, BACKGROUND = Priority


def sequence(n_prompt: int, max_tokens: int = 100, first: int = 1, arrived_s: float = 0.0, **fields) -> Sequence:
    prompt = np.arange(first, first + n_prompt, dtype=np.int64) % 256
    return Sequence(Request("r", prompt, max_tokens, SamplingParams(temperature=0), (), arrived_s, **fields))


def scheduler(n_slots: int = 3, *, step: int = 8, chunk: int = 4, max_waiting: int = 5) -> Scheduler:
    return plan_of(n_slots, step, chunks=ChunkRule(unmeasured_tokens=chunk), max_waiting=max_waiting)


def plan_of(n_slots: int, step: int = 8, *, max_waiting: int = 50, **rules) -> Scheduler:
    bounds = dict.fromkeys(Priority, max_waiting)
    return Scheduler(n_slots=n_slots, max_step_tokens=step, rules=SchedulerRules(max_waiting=bounds, **rules))


def turn(plan: Scheduler, now_s: float = 0.0, limits: Limits = NO_LIMITS, token: int = 9) -> Step:
    """Let a step run and give every row a token."""
    step = plan.schedule(now_s, limits)
    assert step is not None
    plan.advance(step)
    if step.chooses:
        for one in step.sequences:
            plan.feed(one, token)
    return step


def shape(step: Step) -> tuple[str, int, int, int]:
    return step.kind, step.batch.first_slot, step.batch.rows, step.batch.new_tokens


def test_nothing_to_do() -> None:
    assert scheduler().schedule(0.0) is None


def test_prompt_goes_in_then_tokens_follow() -> None:
    plan, one = scheduler(), sequence(5)
    plan.submit(one)
    step = plan.schedule(2.5)
    assert step is not None
    assert shape(step) == ("prefill", 0, 1, 5)
    assert step.chooses
    assert (one.started_s, one.slot) == (2.5, 0)
    assert (step.batch.tokens.tolist(), step.batch.past.tolist()) == ([[1, 2, 3, 4, 5]], [0])
    assert plan.advance(step) == []
    plan.feed(one, 77)
    step = plan.schedule(3.0)
    assert step is not None
    assert shape(step) == ("decode", 0, 1, 1)
    assert (step.batch.tokens.tolist(), step.batch.past.tolist()) == ([[77]], [5])


def test_alone_a_long_prompt_takes_whole_steps() -> None:
    plan = scheduler(step=8, chunk=4)
    plan.submit(sequence(19))
    steps = [turn(plan) for _ in range(4)]
    assert [shape(step)[3] for step in steps] == [8, 8, 3, 1]
    assert [step.chooses for step in steps] == [False, False, True, True]


def test_a_running_stream_waits_for_one_chunk_at_most() -> None:
    plan = scheduler(step=8, chunk=4)
    plan.submit(sequence(2))
    turn(plan)
    plan.submit(sequence(10))
    plan.submit(sequence(3))
    kinds = [shape(turn(plan)) for _ in range(10)]
    assert kinds == [
        ("decode", 0, 1, 1),
        ("prefill", 1, 1, 4),
        ("decode", 0, 1, 1),
        ("prefill", 1, 1, 4),
        ("decode", 0, 1, 1),
        ("prefill", 1, 1, 2),
        ("decode", 0, 2, 1),
        ("prefill", 2, 1, 3),
        ("decode", 0, 3, 1),
        ("decode", 0, 3, 1),
    ]


def test_first_come_first_served() -> None:
    plan, sequences = scheduler(n_slots=1), [sequence(1) for _ in range(3)]
    for one in sequences:
        plan.submit(one)
    served = []
    for _ in range(3):
        step = turn(plan)
        served.append(step.sequences[0])
        plan.release(step.sequences[0])
    assert served == sequences


def test_queue_is_bounded() -> None:
    plan = scheduler(n_slots=2, max_waiting=1)
    for _ in range(3):
        plan.submit(sequence(1))
    with pytest.raises(OverloadedError, match="0 requests run and 3 of priority normal wait"):
        plan.submit(sequence(1))
    turn(plan)
    with pytest.raises(OverloadedError):
        plan.submit(sequence(1))


def test_no_queue_at_all_still_fills_the_slots() -> None:
    plan = scheduler(n_slots=2, max_waiting=0)
    plan.submit(sequence(1))
    plan.submit(sequence(1))
    with pytest.raises(OverloadedError):
        plan.submit(sequence(1))


def test_waiting_sequence_leaves_without_touching_the_running() -> None:
    plan, running, waiting = scheduler(n_slots=1), sequence(1), sequence(1)
    plan.submit(running)
    turn(plan)
    plan.submit(waiting)
    assert plan.release(waiting) == []
    assert plan.running == (running,)
    assert plan.n_waiting == 0
    assert plan.release(waiting) == []


def test_those_who_leave_together_are_not_moved() -> None:
    plan, sequences = scheduler(n_slots=4), [sequence(1) for _ in range(4)]
    for one in sequences:
        plan.submit(one)
    while len(plan.running) < 4 or turn(plan).kind == "prefill":
        turn(plan)
    past = sequences[2].past
    assert plan.release(sequences[0], sequences[3], sequences[1]) == [Move(2, 1, past), Move(1, 0, past)]


def test_the_more_urgent_go_first() -> None:
    plan = plan_of(1)
    ranks = (BACKGROUND, NORMAL, EMERGENCY, INTERACTIVE)
    for priority in ranks:
        plan.submit(sequence(1, priority=priority))
    served = []
    for _ in ranks:
        step = turn(plan)
        served.append(step.sequences[0].request.priority)
        plan.release(step.sequences[0])
    assert served == sorted(ranks)


def test_of_equals_the_nearest_deadline_goes_first() -> None:
    plan = plan_of(1)
    late, soon = sequence(1, deadline_s=9.0), sequence(1, deadline_s=3.0)
    plan.submit(late)
    plan.submit(soon)
    assert turn(plan).sequences == (soon,)
    assert plan.expired(2.9) == []
    assert plan.expired(9.0) == [late, soon]


def test_an_emergency_takes_a_full_servers_slot_and_the_displaced_goes_on_where_it_was() -> None:
    plan = plan_of(2)
    first, second = sequence(3, priority=BACKGROUND), sequence(3, priority=BACKGROUND)
    for one in (first, second):
        plan.submit(one)
    while len(turn(plan).sequences) != 2:
        pass
    urgent = sequence(2, priority=EMERGENCY)
    plan.submit(urgent)
    step = turn(plan)
    assert (step.kind, step.sequences, step.chooses) == ("prefill", (urgent,), True)
    # No slot was left for it: the later one lost its KV, and all its tokens are fed again.
    assert (second.slot, second.past, plan.n_displaced) == (None, 0, (0, 1))
    assert turn(plan).sequences == (first, urgent)
    known = second.known
    plan.release(urgent)
    step = turn(plan)
    assert step.sequences == (second,)
    assert step.batch.tokens[0].tolist() == second.tokens[:known].tolist()


def test_with_a_slot_to_park_in_nothing_is_computed_again() -> None:
    plan = plan_of(3, max_running=2)
    first, second = sequence(3, priority=BACKGROUND), sequence(3, priority=BACKGROUND)
    for one in (first, second):
        plan.submit(one)
    while len(turn(plan).sequences) != 2:
        pass
    past = second.past
    urgent = sequence(2, priority=INTERACTIVE)
    plan.submit(urgent)
    assert turn(plan).moves == (Move(1, 2, past),)
    assert (second.slot, second.past, plan.n_displaced) == (2, past, (1, 0))
    plan.release(urgent)
    step = turn(plan)
    assert step.moves == (Move(2, 1, past),)
    assert step.sequences == (first, second)


def test_a_prompt_on_its_way_gives_way_and_loses_nothing() -> None:
    plan = plan_of(3, step=4, max_running=1)
    long, urgent = sequence(10, priority=NORMAL), sequence(2, priority=INTERACTIVE)
    plan.submit(long)
    turn(plan)
    plan.submit(urgent)
    assert turn(plan).sequences == (urgent,)
    plan.release(urgent)
    step = turn(plan)
    assert (step.sequences, step.batch.past.tolist(), step.moves) == ((long,), [4], (Move(2, 0, 4),))


def test_equals_do_not_displace_each_other() -> None:
    plan = plan_of(1)
    first, second = sequence(1), sequence(1)
    plan.submit(first)
    turn(plan)
    plan.submit(second)
    assert turn(plan).sequences == (first,)


def test_reserved_places_are_for_the_urgent() -> None:
    plan = plan_of(3, reserved=1)
    ordinary = [sequence(1) for _ in range(3)]
    for one in ordinary:
        plan.submit(one)
    for _ in range(5):
        turn(plan)
    assert len(plan.running) == 2
    urgent = sequence(1, priority=INTERACTIVE)
    plan.submit(urgent)
    assert turn(plan).sequences == (urgent,)
    assert plan.n_displaced == (0, 0)
    assert len(turn(plan).sequences) == 3


def test_an_urgent_prompt_is_not_interrupted_by_the_less_urgent() -> None:
    plan = plan_of(2, step=4, chunks=ChunkRule(unmeasured_tokens=4))
    plan.submit(sequence(1, priority=BACKGROUND))
    turn(plan)
    plan.submit(sequence(10, priority=INTERACTIVE))
    assert [turn(plan).kind for _ in range(4)] == ["prefill", "prefill", "prefill", "decode"]


def test_what_is_shed_does_not_start_and_is_turned_away_but_an_emergency_is_not() -> None:
    plan, hot = plan_of(2), Limits(shed=frozenset(Priority))
    waiting = sequence(1)
    plan.submit(waiting)
    assert plan.schedule(0.0, hot) is None
    with pytest.raises(OverloadedError, match="normal requests are turned away"):
        plan.submit(sequence(1), hot)
    urgent = sequence(1, priority=EMERGENCY)
    plan.submit(urgent, hot)
    assert turn(plan, limits=hot).sequences == (urgent,)
    plan.release(urgent)
    assert turn(plan).sequences == (waiting,)


def test_a_smaller_batch_parks_the_least_urgent_until_it_grows() -> None:
    plan = plan_of(4)
    sequences = [sequence(1, priority=priority) for priority in (BACKGROUND, NORMAL, INTERACTIVE)]
    for one in sequences:
        plan.submit(one)
    while len(turn(plan).sequences) < 3:
        pass
    background, normal, interactive = sequences
    hot = Limits(max_batch=1)
    assert turn(plan, limits=hot).sequences == (interactive,)
    assert (plan.n_parked, plan.n_displaced) == (2, (2, 0))
    assert set(turn(plan).sequences) == {background, normal, interactive}


def test_of_equals_the_client_that_was_served_least_goes_first() -> None:
    plan = plan_of(1)
    for client, count in (("greedy", 4), ("modest", 2)):
        for _ in range(count):
            plan.submit(sequence(8, client=client))
    served = []
    for _ in range(6):
        step = turn(plan)
        served.append(step.sequences[0].request.client)
        plan.release(step.sequences[0])
    assert served[:4] in (["greedy", "modest", "greedy", "modest"], ["greedy", "modest", "modest", "greedy"])


def test_a_client_that_was_away_has_saved_nothing_up() -> None:
    plan = plan_of(1)
    plan.submit(sequence(8, client="away"))
    plan.release(*turn(plan).sequences)
    for _ in range(4):
        plan.submit(sequence(8, client="here"))
    for _ in range(2):
        plan.release(*turn(plan).sequences)
    for _ in range(4):
        plan.submit(sequence(8, client="away"))
    served = []
    for _ in range(4):
        step = turn(plan)
        served.append(step.sequences[0].request.client)
        plan.release(*step.sequences)
    assert sorted(served) == ["away", "away", "here", "here"]


def test_waiting_raises_a_request_up_to_what_is_overdue() -> None:
    plan = plan_of(1, ageing=Ageing(interval_s=1.0))
    old = sequence(1, priority=BACKGROUND)
    plan.submit(old)
    for now_s, fresh in ((0.5, NORMAL), (1.5, INTERACTIVE), (2.9, INTERACTIVE)):
        urgent = sequence(1, arrived_s=now_s, priority=fresh, deadline_s=now_s + 0.5)
        plan.submit(urgent)
        assert turn(plan, now_s).sequences == (urgent,)
        plan.release(urgent)
    plan.submit(sequence(1, arrived_s=3.0, priority=INTERACTIVE, deadline_s=3.5))
    assert turn(plan, 3.0).sequences == (old,)


def test_one_that_was_raised_gets_on_before_it_is_displaced() -> None:
    plan = plan_of(1, ageing=Ageing(interval_s=1.0, slice_tokens=3))
    old = sequence(1, priority=BACKGROUND)
    plan.submit(old)
    turn(plan, 2.0)
    urgent = sequence(1, priority=INTERACTIVE, arrived_s=2.0)
    plan.submit(urgent)
    served = [turn(plan, 2.0).sequences[0] for _ in range(4)]
    assert served == [old, old, urgent, urgent]


def test_retry_after_is_the_measured_time_of_an_answer() -> None:
    plan = plan_of(1, max_waiting=0)
    one = sequence(1)
    plan.submit(one)
    turn(plan, 5.0)
    plan.release(one, now_s=17.5)
    plan.submit(sequence(1))
    with pytest.raises(OverloadedError) as refused:
        plan.submit(sequence(1))
    assert refused.value.retry_after_s == 13


@pytest.mark.parametrize("running", list(Priority))
@pytest.mark.parametrize("coming", list(Priority))
@pytest.mark.parametrize("n_slots", [3, 4])
def test_a_full_queue_turns_nobody_away_who_takes_the_place_of_a_less_urgent_one(
    running: Priority, coming: Priority, n_slots: int
) -> None:
    plan = plan_of(n_slots, max_running=3, max_waiting=0)
    for _ in range(3):
        plan.submit(sequence(1, priority=running))
        turn(plan)
        turn(plan)
    assert len(plan.running) == 3
    taken = [sequence(1, priority=coming) for _ in range(3 if coming < running else 0)]
    for one in taken:
        plan.submit(one)
    with pytest.raises(OverloadedError):
        plan.submit(sequence(1, priority=coming))
    for _ in 2 * taken:
        turn(plan)
    assert set(taken) <= set(plan.running)


@pytest.mark.parametrize(
    ("priority", "limits", "retry_s"),
    [
        (INTERACTIVE, NO_LIMITS, 3),
        (NORMAL, NO_LIMITS, 4),
        (NORMAL, Limits(max_batch=2), 6),
        (NORMAL, Limits(max_batch=1), 12),
    ],
)
def test_retry_after_counts_the_places_that_such_a_request_may_have(
    priority: Priority, limits: Limits, retry_s: int
) -> None:
    plan = plan_of(6, max_running=4, reserved=1, max_waiting=0)
    one = sequence(1)
    plan.submit(one)
    turn(plan, 0.0)
    plan.release(one, now_s=12.0)
    # As many are taken as run under these limits: the queue takes nobody.
    for _ in range(12 // retry_s):
        plan.submit(sequence(1, priority=priority), limits)
    with pytest.raises(OverloadedError) as refused:
        plan.submit(sequence(1, priority=priority), limits)
    assert refused.value.retry_after_s == retry_s


def test_each_priority_has_a_queue_of_its_own() -> None:
    plan = plan_of(1, max_waiting=1)
    for priority in (BACKGROUND, BACKGROUND, NORMAL):
        plan.submit(sequence(1, priority=priority))
    with pytest.raises(OverloadedError, match="of priority background wait"):
        plan.submit(sequence(1, priority=BACKGROUND))
    plan.submit(sequence(1, priority=EMERGENCY))


def test_chunks_are_cut_to_the_measured_speed() -> None:
    plan = plan_of(2, step=512, chunks=ChunkRule(budget_s=0.1))
    for size in (20, 40):
        plan.submit(one := sequence(size, first=size))
        step = plan.schedule(0.0)
        assert step is not None
        plan.advance(step, duration_s=0.02 + size * 0.001)
        plan.release(one)
    plan.submit(long := sequence(600, first=90))
    step = plan.schedule(0.0)
    assert step is not None
    assert step.batch.new_tokens in (79, 80)
    plan.release(long)
    plan.submit(urgent := sequence(600, first=91, priority=EMERGENCY))
    step = plan.schedule(0.0)
    assert step is not None
    assert step.batch.new_tokens == 512
    plan.release(urgent)
    # Others like it may follow: for a while steps are shorter.
    for now_s, sizes in ((1.0, (29, 30)), (601.0, (79, 80))):
        plan.submit(one := sequence(600, first=92))
        step = plan.schedule(now_s)
        assert step is not None
        assert step.batch.new_tokens in sizes
        plan.release(one)
