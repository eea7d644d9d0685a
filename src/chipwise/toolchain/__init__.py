"""Toolchains: vendors' compilers, each in a Python environment of its own, run as jobs whose word is not believed."""

from __future__ import annotations

from chipwise.toolchain.environment import Environment, default_root
from chipwise.toolchain.job import run_job
from chipwise.toolchain.job_spec import Job, JobResult
from chipwise.toolchain.live_job import LiveJob, open_job
from chipwise.toolchain.registry import get_toolchain, toolchains
from chipwise.toolchain.spec import ToolchainSpec

__all__ = [
    "Environment",
    "Job",
    "JobResult",
    "LiveJob",
    "ToolchainSpec",
    "default_root",
    "get_toolchain",
    "open_job",
    "run_job",
    "toolchains",
]
