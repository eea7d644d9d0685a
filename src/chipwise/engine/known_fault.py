"""Known faults: a session may know why a runtime returns what it should not."""

from __future__ import annotations

from typing import Literal, Protocol, TypeGuard

Symptom = Literal["zeros", "not_finite", "differs"]
"""What a self-test saw: outputs that are all zero, that hold NaN or infinity, or that are others than expected."""


class KnowsFaults(Protocol):
    """A session whose runtime has known faults."""

    def explain(self, symptom: Symptom) -> str | None:
        """What is known about such outputs of this model on this device, in one line; None if nothing is."""
        ...


def knows_faults(session: object) -> TypeGuard[KnowsFaults]:
    """Whether a session can say what is known."""
    # From Python 3.12 on isinstance does not see what a wrapping session passes on.
    return hasattr(session, "explain")


def explained(session: object, symptom: Symptom) -> str:
    """What a session knows about a symptom, to be put behind the message; empty if nothing."""
    text = session.explain(symptom) if knows_faults(session) else None
    return f" ({text})" if text else ""
