"""The first look at a model file: is it there, and is it the file itself?"""

from __future__ import annotations

from pathlib import Path

from chipwise.errors import ModelFormatError
from chipwise.files import is_lfs_pointer, read_bounded

# gemma's tokenizer.json, the largest text of any model here, has 33 MB.
_MAX_TEXT_BYTES = 256 << 20


def check_file(path: Path) -> int:
    """The size of a model file, in bytes.

    Raises:
        ModelFormatError: There is no such file, it is empty, unreadable, or a Git-LFS pointer.
    """
    where = str(path)
    try:
        if not path.is_file():
            problem = "not a file" if path.exists() else "the file is missing"
            raise ModelFormatError(problem, where=where, remedy="download the model again")
        size = path.stat().st_size
        path.open("rb").close()
    except OSError as e:
        remedy = "make it a file that you may read"
        raise ModelFormatError(f"cannot read the file ({e.strerror})", where=where, remedy=remedy) from e
    if not size:
        raise ModelFormatError("the file is empty", where=where, remedy="download the model again")
    if is_lfs_pointer(path):
        raise ModelFormatError(
            "a Git-LFS pointer lies in place of the file", where=where, remedy="fetch the file with `git lfs pull`"
        )
    return size


def read_text(path: Path) -> str:
    """The text of a UTF-8 file.

    Raises:
        ModelFormatError: The file is missing, unreadable, a Git-LFS pointer, or not UTF-8.
    """
    raw = read_bounded(path, _MAX_TEXT_BYTES, error=ModelFormatError, remedy="download the model again")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise ModelFormatError(
            f"not UTF-8 text (byte {e.start})", where=str(path), remedy="download the model again"
        ) from e
