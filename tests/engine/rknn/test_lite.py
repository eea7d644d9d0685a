from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from chipwise.engine.rknn.lite import find_lite
from chipwise.errors import DependencyError


def test_it_is_found(lite: ModuleType) -> None:
    assert find_lite() is lite.RKNNLite


def test_it_is_not_installed() -> None:
    with pytest.raises(DependencyError, match="rknn-toolkit-lite2 is not installed; on the board run `pip install"):
        find_lite()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import ruamel_that_is_not_there", "needs the package ruamel_that_is_not_there; install"),
        ("from rknnlite import rknn_log", "cannot be imported"),
        ("import rknnlite.rknn_log", "incomplete or made for another Python than 3"),
        ("raise ImportError('cannot open shared object file: built for Python 3.10')", "built for Python 3.10"),
        ("x = 1", "AttributeError: .* has no attribute 'RKNNLite'"),
    ],
)
def test_it_is_broken(code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rknnlite").mkdir()
    (tmp_path / "rknnlite/__init__.py").write_text("")
    (tmp_path / "rknnlite/api.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(DependencyError, match=message):
        find_lite()
    for name in ("rknnlite", "rknnlite.api"):
        sys.modules.pop(name, None)
