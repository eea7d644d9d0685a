"""Numbers that no model and no machine has end in one line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chipwise.cli.main import main
from chipwise.cli.numbers import dimension_sets, dimensions, fixed_values
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
        ["serve", "B", "--grace", "1e308"],
        ["serve", "B", "--engine-timeout", "1e308"],
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


def test_sizes_that_go_together() -> None:
    assert dimension_sets([]) == ({},)
    assert dimension_sets(["N=2", "H=32"]) == ({"N": 2, "H": 32},)
    assert dimension_sets(["N=1,2,4", "H=32,64,96", "C=3"]) == (
        {"N": 1, "H": 32, "C": 3}, {"N": 2, "H": 64, "C": 3}, {"N": 4, "H": 96, "C": 3},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["N=1,2", "H=8,16,32"], "lists of different lengths: 2 of N, 3 of H; the first sizes of all go together"),
        (["N=1,2", "N=4"], "N is given twice; list its sizes once"),
        (["N=1,,2"], "'N=' is no dimension"),
        (["N=1,0"], "'N=0' is no dimension"),
    ],
)
def test_lists_that_do_not_go_together(texts: list[str], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        dimension_sets(texts)
