"""The real toolkits, where they are installed."""

from __future__ import annotations

import pytest

from chipwise.toolchain import Environment, default_root, get_toolchain
from chipwise.toolchain.environment import State


@pytest.fixture(scope="session")
def rknn() -> Environment:
    """Rockchip's toolkit, found through CHIPWISE_TOOLCHAINS or in the user's data folder."""
    environment = Environment(get_toolchain("rknn"), default_root())
    if environment.state is not State.READY:
        pytest.skip(f"rknn is {environment.state.value} in {environment.folder}; `chipwise toolchain install rknn`")
    return environment
