"""Finding: one thing a rule found, with the value measured and the limit it breaks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Finding:
    """One finding of a rule.

    Attributes:
        rule: The rule's identifier, e.g. ``opset``.
        severity: ``error`` (the build cannot go on), ``warning`` (it can, at a cost), ``info``.
        where: The node, tensor or field it concerns.
        measured: The value found, with its unit.
        limit: The value allowed, with its unit.
        message: What is wrong, in one sentence.
        remedy: What to do about it, in one sentence.
    """

    rule: str
    severity: Severity
    where: str
    measured: str
    limit: str
    message: str
    remedy: str

    def to_dict(self) -> dict[str, str]:
        """The seven fields by name, as ``--json`` prints them."""
        return asdict(self)

    def line(self) -> str:
        """One line of text for a terminal."""
        return (
            f"{self.severity}[{self.rule}] {self.where}: {self.message} "
            f"(measured {self.measured}, limit {self.limit}); {self.remedy}"
        )
