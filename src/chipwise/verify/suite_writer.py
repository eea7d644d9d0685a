"""A suite as files: suite.toml and cases.jsonl."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from chipwise.errors import OutputError, QueryFileError
from chipwise.files import write_atomic, writing
from chipwise.verify.domains.suite_lines import EVIDENCE
from chipwise.verify.suite import read_suite
from chipwise.verify.suite_file import SUITE_FILE

CASES_FILE = "cases.jsonl"

# In a short record the first lines are not in its first half: the question stands before them.
_LONG_LINES = 20


def write_suite(
    folder: Path, name: str, lines: Sequence[dict[str, Any]], *, about: str, record_lines: int, overwrite: bool = False
) -> None:
    """Write a suite into a folder, whole or not at all.

    Args:
        folder: Where it goes; made if it is not there.
        name: The suite's name.
        lines: Its cases.
        about: What it is and what to do with it, in lines for a comment.
        record_lines: Lines of its long records, which decide how near to the beginning a fact must stand.
        overwrite: Whether to replace a suite that lies there.

    Raises:
        OutputError: A suite lies there, or the folder cannot be written.
    """
    toml, cases = folder / SUITE_FILE, folder / CASES_FILE
    if not overwrite and (toml.exists() or cases.exists()):
        raise OutputError("a suite lies there", where=str(folder), remedy="give another folder, or --overwrite")
    content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    described = _toml(name, lines, about, record_lines)
    _read_back(content, described, folder)
    made = not folder.exists()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        write_atomic(cases, content)
        write_atomic(toml, described)
    except BaseException:
        if made:
            cases.unlink(missing_ok=True)
            with suppress(OSError):
                os.rmdir(folder)
        raise


def _read_back(content: str, described: str, folder: Path) -> None:
    """Read what would be written from another place, so that nothing that lies there is replaced by what cannot be.

    Raises:
        QueryFileError: It cannot be read; the error names where it would have been written.
    """
    with tempfile.TemporaryDirectory(prefix="chipwise-suite-") as made:
        try:
            (Path(made) / CASES_FILE).write_text(content, "utf-8")
            (Path(made) / SUITE_FILE).write_text(described, "utf-8")
            read_suite(Path(made))
        except QueryFileError as e:
            where = (e.where or "").replace(made, str(folder))
            raise QueryFileError(f"nothing was written: {e.what}", where=where, remedy=e.remedy) from e
        except UnicodeEncodeError as e:
            raise QueryFileError(
                "nothing was written: a text holds half of a surrogate pair, which is no character",
                where=str(folder),
                remedy="take it out of the file or the name",
            ) from e


def _toml(name: str, lines: Sequence[dict[str, Any]], about: str, record_lines: int) -> str:
    languages = sorted({line["lang"] for line in lines if "lang" in line})
    within = 0.5 if record_lines >= _LONG_LINES else 0.75
    quoted = json.dumps(name, ensure_ascii=False)
    comment = "".join(f"# {line}\n" for line in about.splitlines())
    return f"""{comment}name = {quoted}
languages = {json.dumps(languages)}
cases = ["{CASES_FILE}"]

[dimensions.keyword]
same = ["time", "unit", "numeral"]   # 7:30 pm is 19:30; 1.5 kg is 1500 g; 二十六 is 26

[dimensions.logic]
ignore = {json.dumps(list(EVIDENCE))}

[dimensions.long_range]
fact_within = {within}

[dimensions.noise]

[gate]
certainty = 0.95
"""
