from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.errors import InputError
from chipwise.telemetry.files import FolderFiles


def test_places_that_are_no_board(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    for name, words in (("nothing", "no such folder"), ("file", "is no folder"), ("empty", "none of proc, sys")):
        with pytest.raises(InputError, match=words) as caught:
            FolderFiles(tmp_path / name)
        assert caught.value.where == str(tmp_path / name)


def test_the_end_of_a_long_log_and_names_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "commands"
    folder.mkdir()
    (folder / "tegrastats.txt").write_text("x\n" * 100_000 + "last\n")
    for n in (10, 9, 1):
        (folder / f"zone{n}").touch()
    files = FolderFiles(tmp_path)
    assert len(files.read("commands/tegrastats.txt")) == 1 << 16
    assert files.read("commands/tegrastats.txt").endswith(b"x\nlast\n")
    assert files.names("commands") == ("tegrastats.txt", "zone1", "zone9", "zone10")
    assert files.names("nothing") == ()
