from __future__ import annotations

from chipwise.serve.request.limits import Limits
from chipwise.serve.request.priority import Priority


def test_an_emergency_is_never_shed() -> None:
    limits = Limits(shed=frozenset(Priority))
    assert [priority for priority in Priority if not limits.sheds(priority)] == [Priority.EMERGENCY]


def test_nothing_is_shed_at_first() -> None:
    assert Limits().max_batch is None
    assert not any(Limits().sheds(priority) for priority in Priority)


def test_the_more_urgent_is_less() -> None:
    assert sorted(Priority) == [Priority.EMERGENCY, Priority.INTERACTIVE, Priority.NORMAL, Priority.BACKGROUND]
    assert [priority.label for priority in Priority][:2] == ["emergency", "interactive"]
