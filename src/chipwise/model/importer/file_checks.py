"""The first look at a model file: is it there, and is it the file itself?"""

from __future__ import annotations

from pathlib import Path

from chipwise.errors import ModelFormatError

_LFS_POINTER = b"version https://git-lfs"


def check_file(path: Path) -> int:
    """The size of a model file, in bytes.

    Raises:
        ModelFormatError: There is no such file, it is empty, unreadable, or a Git-LFS pointer.
    """
    try:
        with path.open("rb") as file:
            head = file.read(len(_LFS_POINTER))
        size = path.stat().st_size
    except FileNotFoundError as e:
        raise ModelFormatError("the file is missing", where=str(path), remedy="download the model again") from e
    except OSError as e:
        raise ModelFormatError(f"cannot read the file ({e.strerror})", where=str(path)) from e
    if not head:
        raise ModelFormatError("the file is empty", where=str(path), remedy="download the model again")
    if head == _LFS_POINTER:
        raise ModelFormatError(
            "a Git-LFS pointer lies in place of the file",
            where=str(path),
            remedy="fetch the file with `git lfs pull`",
        )
    return size


def read_text(path: Path) -> str:
    """The text of a UTF-8 file.

    Raises:
        ModelFormatError: As ``check_file``, or the file is not UTF-8.
    """
    check_file(path)
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as e:
        raise ModelFormatError(
            f"not UTF-8 text (byte {e.start})", where=str(path), remedy="download the model again"
        ) from e
