"""What every step says: findings, measurements, verdicts, gathered in a report."""

from __future__ import annotations

from chipwise.report.finding import Finding, Severity
from chipwise.report.measurement import Measurement, Method
from chipwise.report.verdict import Verdict

__all__ = ["Finding", "Measurement", "Method", "Severity", "Verdict"]
