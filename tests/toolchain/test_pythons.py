from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from chipwise.errors import InputError
from chipwise.toolchain.pythons import find_python, python_version
from tests.toolchain.fake import OURS


def _script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_ours_is_found_if_it_fits() -> None:
    assert python_version(find_python((OURS,))) == OURS


def test_a_shim_that_does_not_work_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _script(tmp_path / "a" / "python9.9", "exit 1")
    good = _script(tmp_path / "b" / "python9.9", "echo 9 9")
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "a"), str(tmp_path / "b"), os.environ["PATH"]]))
    assert find_python(((9, 8), (9, 9))) == good


def test_none_found_says_which_are_wanted() -> None:
    with pytest.raises(InputError, match=r"no Python 9\.8 or 9\.9 was found; install one, or name it with --python"):
        find_python(((9, 8), (9, 9)))


@pytest.mark.parametrize("text", ["exit 1", "echo hello", "echo 3 7"])
def test_a_chosen_one_that_does_not_fit_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"(is no Python that can|is Python 3\.7).*choose a Python"):
        find_python((OURS,), _script(tmp_path / "python", text))


def test_a_chosen_one_that_fits_is_taken() -> None:
    assert find_python((OURS,), Path(sys.executable)) == Path(sys.executable)
    with pytest.raises(InputError, match="no Python"):
        find_python((OURS,), Path("/nowhere/python"))
