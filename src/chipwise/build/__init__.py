"""The build: from a model and a target to a verified bundle, in named steps."""

from __future__ import annotations

from chipwise.build.driver import build
from chipwise.build.options import BuildOptions
from chipwise.build.result import BuildResult

__all__ = ["BuildOptions", "BuildResult", "build"]
