"""The folder a build works in, and what comes of a full disk in it."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from chipwise.build import BuildOptions
from chipwise.build.line import for_outcome, work_folder
from chipwise.errors import OutputError, RewriteError


def _fail(out: Path, error: Exception) -> None:
    with work_folder(out) as folder:
        (folder / "half.onnx").write_bytes(b"half")
        raise error


def test_it_lies_beside_the_output_and_is_gone_afterwards(tmp_path: Path) -> None:
    with work_folder(tmp_path / "new" / "b") as folder:
        assert folder.parent == tmp_path / "new"
        (folder / "half.onnx").write_bytes(b"half")
    assert list(tmp_path.iterdir()) == []


def test_what_lies_at_the_output_stays(tmp_path: Path) -> None:
    with work_folder(tmp_path / "new" / "b"):
        (tmp_path / "new" / "b").mkdir()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["b"]


def test_what_a_killed_build_left_is_cleared(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, signal, sys\n"
        "from chipwise.build.line import work_folder\n"
        "with work_folder(pathlib.Path(sys.argv[1])) as folder:\n"
        "    (folder / 'half.bin').write_bytes(bytes(10))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "b")], check=False)
    assert [path.name for path in tmp_path.rglob("*")] == [".b.work.part", "half.bin"]
    with work_folder(tmp_path / "b") as folder:
        assert list(folder.iterdir()) == []
    assert list(tmp_path.iterdir()) == []


def test_two_builds_with_one_output(tmp_path: Path) -> None:
    with work_folder(tmp_path / "b") as folder:
        (folder / "mine").touch()
        with pytest.raises(OutputError, match="another build is writing there") as caught:
            _fail(tmp_path / "b", KeyError("never reached"))
        assert caught.value.where == str(tmp_path / "b")
        assert (folder / "mine").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_parent_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write") as caught, work_folder(tmp_path / "file" / "b"):
        pass
    assert caught.value.where == str(tmp_path / "file" / "b")


@pytest.mark.parametrize("named", [True, False])
def test_a_disk_that_becomes_full_in_a_library(named: bool, tmp_path: Path) -> None:
    place = str(tmp_path / "other" / "temporary") if named else None
    error = RewriteError("the library fails on the graph")
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device", place)
    with pytest.raises(OutputError, match="no space left") as caught:
        _fail(tmp_path / "b", error)
    assert caught.value.where == (place or str(tmp_path / "b"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [RewriteError("no"), OSError(errno.EIO, "Input/output error"), KeyError("x")])
def test_other_errors_stay_as_they_are(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(type(error)) as caught:
        _fail(tmp_path / "b", error)
    assert caught.value is error


def test_what_failed_goes_beside_what_works(tmp_path: Path) -> None:
    options = BuildOptions("m", "host", tmp_path / "b")
    assert for_outcome(options, passed=True) is options
    failed = for_outcome(options, passed=False)
    assert (failed.out, failed.overwrite) == (tmp_path / "b.failed", True)
