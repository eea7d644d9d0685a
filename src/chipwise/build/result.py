"""BuildResult: what a build made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chipwise.report.report import Report


@dataclass(frozen=True)
class BuildResult:
    """The outcome.

    Attributes:
        bundle: The bundle's folder. If the gate failed it is not the one asked for but its neighbour ``NAME.failed``.
        report: What was found on the way.
        recipe: The recipe that was kept.
    """

    bundle: Path
    report: Report
    recipe: str

    @property
    def passed(self) -> bool:
        """Whether every value measured holds, whether or not there were cases enough to be sure."""
        return self.report.holds
