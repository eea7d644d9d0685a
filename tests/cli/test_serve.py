from __future__ import annotations

from dataclasses import replace

import pytest

from chipwise.cli.serve import _say_ready
from chipwise.serve.assembly import Served
from tests.serve.fakes import null_model


@pytest.mark.parametrize("chip", [None, "rk3588"])
def test_an_emulated_chip_is_named_at_the_start(chip: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    _say_ready(Served(replace(null_model(), emulates=chip)), "http://127.0.0.1:1", slots=4)
    out = capsys.readouterr().out
    assert "ready at http://127.0.0.1:1/v1" in out
    assert ("emulates rk3588's arithmetic on this machine" in out) is (chip is not None)
