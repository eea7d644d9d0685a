"""The licence a model says it has."""

from __future__ import annotations

import re
from pathlib import Path

_FRONT_MATTER = re.compile(r"---\r?\n(.*?)\r?\n---", re.DOTALL)
_LICENCE = re.compile(r"^license:\s*['\"]?([\w.-]+)", re.MULTILINE)


def stated_licence(folder: Path) -> str | None:
    """The licence named in the front matter of a folder's README.md, e.g. ``apache-2.0``; None if it names none."""
    readme = folder / "README.md"
    if not readme.is_file():
        return None
    front = _FRONT_MATTER.match(readme.read_text("utf-8-sig", errors="replace"))
    found = _LICENCE.search(front.group(1)) if front else None
    return found.group(1) if found else None
