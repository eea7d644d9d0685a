"""Numbers that no model and no machine has end in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.cli.main import main
from chipwise.cli.numbers import dimensions, fixed_values
from chipwise.errors import InputError


def test_dimensions() -> None:
    assert dimensions(["batch=1", "past + seq=12"]) == {"batch": 1, "past + seq": 12}


@pytest.mark.parametrize("text", ["batch", "=3", "batch=", "batch=-1", "batch=0", "batch=" + "9" * 400, "n=2147483648"])
def test_no_dimension(text: str) -> None:
    with pytest.raises(InputError, match="is no dimension"):
        dimensions([text])


@pytest.mark.parametrize(
    "args",
    [
        ["check", "M", "--target", "host", "--context", "9" * 400],
        ["check", "M", "--target", "host", "--streams", "9" * 30],
        ["build", "M", "--target", "host", "-o", "out", "--threads", "99999999"],
        ["build", "M", "--target", "host", "-o", "out", "--context", "9" * 40],
        ["serve", "B", "--threads", "99999999"],
        ["serve", "B", "--slots", "100000000"],
        ["serve", "B", "--grace", "nan"],
        ["verify", "B", "--suite", "s", "--threads", "99999999"],
    ],
)
def test_absurd_numbers(
    args: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(args) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: Invalid value for ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_what_an_input_has_for_good() -> None:
    assert fixed_values(["sr=16000", "a=b=-0.5"]) == {"sr": 16000.0, "a=b": -0.5}
    for text in ("sr", "sr=", "=1", "sr=nan", "sr=inf", "sr=1x"):
        with pytest.raises(InputError, match="gives no input a value; write it like --fix sr=16000"):
            fixed_values([text])


def test_nothing_is_given_twice() -> None:
    with pytest.raises(InputError, match="--dim: H is given twice; a file has one size of each"):
        dimensions(["H=32", "H=64"])
    with pytest.raises(InputError, match="--fix: sr is given twice"):
        fixed_values(["sr=16000", "sr=8000"])
