"""FairShares: how much of the model each client has had, so that the one with the least goes first."""

from __future__ import annotations

from collections import Counter

# A generated token costs a step of its own, a prompt token a small part of one: OpenAI's and others' price lists have
# about this ratio, and so has "Fairness in Serving Large Language Models" (Sheng et al., OSDI 2024).
PROMPT_WEIGHT = 1.0
GENERATED_WEIGHT = 2.0


class FairShares:
    """Virtual token counters (Sheng et al., OSDI 2024).

    Each client's counter grows with the tokens it is served. A client that comes back after a pause starts at the
    least counter of those that are there: what it did not use is not saved up.
    """

    def __init__(self) -> None:
        self._served: dict[str, float] = {}
        self._live: Counter[str] = Counter()

    def enter(self, client: str) -> None:
        """A request of this client has come."""
        if not self._live[client]:
            least = min((self._served[other] for other, count in self._live.items() if count), default=0.0)
            self._served[client] = max(self._served.get(client, 0.0), least)
        self._live[client] += 1

    def leave(self, client: str) -> None:
        """A request of this client is over."""
        self._live[client] -= 1
        if self._live.total() == 0:
            # Nobody is there to be compared with: names that come once are not kept.
            self._live.clear()
            self._served.clear()

    def charge(self, client: str, tokens: int, weight: float) -> None:
        """A client was served tokens."""
        self._served[client] = self._served.get(client, 0.0) + weight * tokens

    def served(self, client: str) -> float:
        """A client's counter."""
        return self._served.get(client, 0.0)
