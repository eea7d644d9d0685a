"""Models the tests share."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import settings

from chipwise.toolchain import Environment, default_root, get_toolchain
from chipwise.toolchain.environment import FOLDER_VARIABLE, State
from chipwise.verify.reference.store import ReferenceStore

# A busy machine is no error.
settings.register_profile("chipwise", deadline=None)
settings.load_profile("chipwise")

ROOT = Path(__file__).parent.parent
INSTALLED = default_root()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What was collected stays: garbage is neither looked for among thousands of tests now, nor while they run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_toolchains(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A toolkit that happens to be installed changes no test but those that ask for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER_VARIABLE, str(tmp_path_factory.mktemp("no_toolchains")))
        yield


@pytest.fixture(autouse=True)
def _no_kept_answers(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another test, or the user, kept of a reference's answers is not read, and nothing is added to it."""
    folder = tmp_path_factory.getbasetemp() / "kept_references" / uuid4().hex
    monkeypatch.setattr(ReferenceStore, "of_user", classmethod(lambda cls: cls(folder)))


@pytest.fixture(scope="session")
def rknn() -> Environment:
    """Rockchip's toolkit, found through CHIPWISE_TOOLCHAINS or in the user's data folder."""
    environment = Environment(get_toolchain("rknn"), INSTALLED)
    if environment.state is not State.READY:
        missing = pytest.fail if os.environ.get("CHIPWISE_REQUIRE_RKNN") == "1" else pytest.skip
        missing(f"rknn is {environment.state.value} in {environment.folder}; `chipwise toolchain install rknn`")
    return environment


@pytest.fixture(scope="session")
def chromium() -> str:
    """Chromium, as the system has it; nothing is downloaded."""
    names = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
    program = next((found for name in names if (found := shutil.which(name))), None)
    if program is None:
        missing = pytest.fail if os.environ.get("CHIPWISE_REQUIRE_CHROMIUM") == "1" else pytest.skip
        missing(f"no Chromium ({', '.join(names)}); on Debian: apt-get install chromium")
    return program


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
