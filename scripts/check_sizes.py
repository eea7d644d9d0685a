"""Check that files and functions stay short enough to read: 400 lines a file, 60 a function."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LINES = 400
FUNCTION_LINES = 60


def too_long(path: Path) -> Iterator[str]:
    """One line of text for the file, and for each function in it, that is too long."""
    text = path.read_text("utf-8")
    count = len(text.splitlines())
    if count > FILE_LINES:
        yield f"{path}: {count} lines, at most {FILE_LINES} allowed; split it by noun"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            length = node.end_lineno - node.lineno + 1
            if length > FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {length} lines, at most {FUNCTION_LINES} allowed"


def main() -> int:
    """Print what is too long in the folders named; 1 if anything is."""
    files = sorted(path for folder in sys.argv[1:] for path in Path(folder).rglob("*.py"))
    found = [line for path in files for line in too_long(path)]
    print("\n".join(found) if found else f"{len(files)} files, none too long")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
