"""Models the tests share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is no error.
settings.register_profile("chipwise", deadline=None)
settings.load_profile("chipwise")

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """SmolLM2-135M-Instruct as GGUF, fetched and checked; for slow tests only."""
    script = ROOT / "scripts" / "fetch_smollm2.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(done.stderr.strip())
    return Path(done.stdout.strip())


@pytest.fixture(scope="session")
def home_agent() -> Path:
    """The folder of the small agent model that is trained in this repository."""
    return ROOT / "models" / "home_agent"
