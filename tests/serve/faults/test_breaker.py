from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from chipwise.serve.faults.breaker import Breaker, BreakerRules

RULES = BreakerRules(faults=3, window_s=100, first_wait_s=10, growth=2, longest_wait_s=50, probe_s=20)


def opened(at_s: float = 0.0) -> Breaker:
    breaker = Breaker(RULES)
    for _ in range(3):
        breaker.faulted(at_s)
    return breaker


def test_it_opens_at_the_third_fault_within_the_window() -> None:
    breaker = Breaker(RULES)
    for now_s in (0, 60, 120, 180):
        breaker.faulted(now_s)
        assert breaker.allows(now_s)
    breaker.faulted(181)
    assert breaker.state == "open"
    assert not breaker.allows(190.9)


def test_one_probe_at_a_time_and_an_answer_closes_it() -> None:
    breaker = opened()
    assert not breaker.allows(9.9)
    assert breaker.allows(10)
    assert not breaker.allows(11)
    breaker.answered()
    assert breaker.state == "closed"
    assert breaker.allows(12)
    assert breaker.allows(12)


def test_a_probe_that_nobody_waited_for_is_followed_by_another() -> None:
    breaker = opened()
    assert breaker.allows(10)
    assert not breaker.allows(29.9)
    assert breaker.allows(30)


def test_the_wait_grows_to_its_limit_and_is_forgotten_when_all_is_calm() -> None:
    breaker, now_s, waits = opened(), 0.0, []
    for _ in range(5):
        waits.append(breaker.wait_s)
        now_s += breaker.wait_s
        assert breaker.allows(now_s)
        breaker.faulted(now_s)
    assert waits == [10, 20, 40, 50, 50]
    now_s += breaker.wait_s
    assert breaker.allows(now_s)
    breaker.answered()
    for _ in range(3):
        breaker.faulted(now_s + 1)
    assert breaker.wait_s == 50, "too early again"
    assert breaker.allows(now_s + 51)
    breaker.answered()
    for _ in range(3):
        breaker.faulted(now_s + 500)
    assert breaker.wait_s == 10


def test_late_faults_of_those_still_on_the_engine_do_not_lengthen_the_wait() -> None:
    breaker = opened()
    for now_s in (1, 5, 9):
        breaker.faulted(now_s)
    assert breaker.allows(10)


class BreakerMachine(RuleBasedStateMachine):
    """Whatever happens: it never lets requests through while it is open, and it never stays open for good."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker, self.now_s, self.probes = Breaker(RULES), 0.0, 0
        self.opened_s = 0.0

    @rule(passed_s=st.floats(0, 120))
    def wait(self, passed_s: float) -> None:
        self.now_s += passed_s

    @rule()
    def fault(self) -> None:
        before = self.breaker.state
        self.breaker.faulted(self.now_s)
        if before != "open" and self.breaker.state == "open":
            self.opened_s = self.now_s

    @rule()
    def answer(self) -> None:
        before = self.breaker.state
        self.breaker.answered()
        assert self.breaker.state == ("open" if before == "open" else "closed")

    @rule()
    def ask(self) -> None:
        before = self.breaker.state
        allowed = self.breaker.allows(self.now_s)
        if before == "closed":
            assert allowed
        elif before == "open":
            assert allowed == (self.now_s - self.opened_s >= self.breaker.wait_s)
        if allowed and before != "closed":
            assert not self.breaker.allows(self.now_s), "one probe at a time"

    @precondition(lambda self: self.breaker.state != "closed")
    @rule()
    def recover(self) -> None:
        self.now_s += RULES.longest_wait_s
        assert self.breaker.allows(self.now_s) or self.breaker.state == "half_open"
        self.breaker.answered()
        assert self.breaker.state == "closed"

    @invariant()
    def wait_is_bounded(self) -> None:
        assert RULES.first_wait_s <= self.breaker.wait_s <= RULES.longest_wait_s


TestBreakerMachine = BreakerMachine.TestCase
