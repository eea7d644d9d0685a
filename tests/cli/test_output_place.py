from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.cli.output_place import refuse_output
from chipwise.errors import OutputError


def test_a_folder_that_is_not_there_yet_may_be_made(tmp_path: Path) -> None:
    refuse_output(tmp_path / "a" / "b")
    refuse_output(tmp_path)


@pytest.mark.parametrize("inside", ["", "report.html", "new/folder"])
def test_nothing_is_written_into_a_bundle(tmp_path: Path, inside: str) -> None:
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "manifest.json").write_text("{}")
    with pytest.raises(OutputError, match="lies in a bundle"):
        refuse_output(tmp_path / "bundle" / inside)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="is a file, no folder"):
        refuse_output(tmp_path / "file" / "out")
