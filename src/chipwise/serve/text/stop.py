"""StopMatcher: ends an answer at a stop string, wherever token borders lie in it."""

from __future__ import annotations

from collections.abc import Sequence


class StopMatcher:
    """Lets text through that can be no part of a stop string, and holds the rest back.

    The answer ends where the first stop string is complete, and is cut where that string begins; of several that end
    at one place, the longest counts. The outcome depends on the text only, not on how it came in pieces. Each stop
    string is followed by a Knuth-Morris-Pratt automaton: the cost is linear in the text.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        # A stop string contained in another's middle still ends the answer first, so all are followed.
        self._stops = tuple(dict.fromkeys(stop for stop in stops if stop))
        self._failures = [_failure_function(stop) for stop in self._stops]
        self._matched = [0] * len(self._stops)
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """Take the next text and give what may be sent. After ``stopped`` turns true nothing more comes."""
        if self.stopped:
            return ""
        if not self._stops:
            return text
        buffer = self._held + text
        for i, char in enumerate(text, start=len(self._held) + 1):
            if longest := self._advance(char):
                self.stopped = True
                self._held = ""
                return buffer[: i - longest]
        keep = max(self._matched)
        cut = len(buffer) - keep
        self._held = buffer[cut:]
        return buffer[:cut]

    def flush(self) -> str:
        """What was held back, when the answer ends otherwise."""
        held, self._held = self._held, ""
        self._matched = [0] * len(self._stops)
        return held

    def _advance(self, char: str) -> int:
        """Follow one character; the length of the longest stop string it completes, 0 for none."""
        longest = 0
        for s, stop in enumerate(self._stops):
            failure, at = self._failures[s], self._matched[s]
            while at and stop[at] != char:
                at = failure[at - 1]
            if stop[at] == char:
                at += 1
            if at == len(stop):
                longest = max(longest, at)
                at = failure[at - 1]
            self._matched[s] = at
        return longest


def _failure_function(pattern: str) -> list[int]:
    """For each prefix, the length of its longest proper prefix that is also its suffix (Knuth, Morris, Pratt 1977)."""
    failure = [0] * len(pattern)
    at = 0
    for i in range(1, len(pattern)):
        while at and pattern[i] != pattern[at]:
            at = failure[at - 1]
        if pattern[i] == pattern[at]:
            at += 1
        failure[i] = at
    return failure
