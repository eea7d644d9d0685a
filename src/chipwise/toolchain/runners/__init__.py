"""Scripts that a toolchain's own Python runs; chipwise knows where they lie and never imports them."""

from __future__ import annotations

from pathlib import Path

JOB_MAIN = Path(__file__).parent / "job_main.py"
PROBE = Path(__file__).parent / "probe.py"
RKNN_JOB = Path(__file__).parent / "rknn_job.py"
WATCHED = Path(__file__).parent / "watched.py"
