"""Files: written whole or not at all, read within bounds, digested as a stream."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from chipwise.errors import InputError, OutputError

CHUNK_BYTES = 1 << 20

# The first line of a Git LFS pointer, https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
_LFS_HEAD = b"version https://git-lfs.github.com/spec/"

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


@contextmanager
def writing(path: Path, *, need_bytes: int | None = None) -> Iterator[None]:
    """Turn what can go wrong while writing to ``path`` into one OutputError.

    Args:
        path: The file or folder written to.
        need_bytes: Bytes that were to be written, for the message, if known.

    Raises:
        OutputError: The disk is full, the place read-only, or the path not writable.
    """
    try:
        yield
    except OSError as e:
        raise output_error(e, path, need_bytes=need_bytes) from e


def output_error(error: OSError, path: Path, *, need_bytes: int | None = None) -> OutputError:
    """The OutputError that says what an OSError met at ``path`` means for the user."""
    where = str(path)
    if error.errno in _NO_SPACE:
        needed = f", {need_bytes} bytes needed" if need_bytes is not None else ""
        return OutputError(
            f"no space left to write ({free_bytes(path)} bytes free{needed})",
            where=where,
            remedy="free space or choose another disk",
        )
    if error.errno is None:
        # numpy's tofile says how much was taken, but not why no more.
        return OutputError(
            f"the disk is full or failed ({error}; {free_bytes(path)} bytes free)",
            where=where,
            remedy="free space or choose another disk",
        )
    if error.errno == errno.EFBIG:
        return OutputError(
            "the file system, or a limit set for this shell, takes no file that large",
            where=where,
            remedy="see `ulimit -f`, or choose another disk",
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return OutputError(f"not writable ({error.strerror})", where=where, remedy="choose a folder you may write to")
    return OutputError(f"cannot write ({error.strerror or error})", where=where, remedy="choose another path")


def full_disk(error: BaseException | None) -> OSError | None:
    """The OSError that an error comes from, if that says that a disk is full: libraries wrap it in errors of theirs."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _NO_SPACE:
            return error
        error = error.__cause__ or error.__context__
    return None


def free_bytes(path: Path) -> int:
    """Bytes a user may still write on the disk that ``path`` is, or would be, on."""
    for place in (path.absolute(), *path.absolute().parents):
        with suppress(OSError):
            return shutil.disk_usage(place).free
    return 0


def require_free(path: Path, need_bytes: int) -> None:
    """Check for space before long work starts.

    Raises:
        OutputError: Fewer than ``need_bytes`` bytes are free where ``path`` lies.
    """
    if free_bytes(path) < need_bytes:
        raise output_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), path, need_bytes=need_bytes)


def sync(path: Path) -> None:
    """Make a file's content, or a folder's entries, last through a power cut."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomic(path: Path, data: bytes | str, *, mode: int = 0o666) -> None:
    """Write a file so that a reader sees the old content or the new, never a part.

    Text is written as UTF-8. The temporary file lies beside ``path`` and is removed if anything fails.

    Args:
        path: The file.
        data: Its content.
        mode: Who may read and write it, as far as the user's umask lets them.

    Raises:
        OutputError: The disk is full, read-only, or the path not writable.
    """
    content = data.encode() if isinstance(data, str) else data
    with writing(path, need_bytes=len(content)):
        # NamedTemporaryFile removes the file on any way out but the rename.
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as temporary:
            part = Path(temporary.name)
            try:
                temporary.write(content)
                temporary.flush()
                os.fsync(temporary.fileno())
                # mkstemp makes files for their owner alone; a file of the user's has the user's umask.
                part.chmod(mode & ~_umask())
                part.replace(path)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
        sync(path.parent)


def _umask() -> int:
    # The only portable way to read it is to set it.
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def read_bounded(
    path: Path, max_bytes: int, *, error: type[InputError] = InputError, remedy: str = "correct the path"
) -> bytes:
    """The content of a file of at most ``max_bytes`` bytes.

    Args:
        path: The file.
        max_bytes: The most to read.
        error: The class of error to raise.
        remedy: What to do if no such file lies there.

    Raises:
        InputError: The file is missing, unreadable, no regular file, too large, or a Git LFS pointer.
    """
    where = str(path)
    try:
        if not path.is_file():
            raise error("no such file" if not path.exists() else "not a file", where=where, remedy=remedy)
        with path.open("rb") as stream:
            data = stream.read(max_bytes + 1)
    except OSError as e:
        raise error(f"cannot read ({e.strerror})", where=where, remedy="make it a file that you may read") from e
    if len(data) > max_bytes:
        raise error(
            f"larger than the {max_bytes} bytes such a file may have",
            where=where,
            remedy="check that it is the file you meant",
        )
    if data.startswith(_LFS_HEAD):
        raise error("a Git LFS pointer, not the file itself", where=where, remedy="run `git lfs pull`")
    return data


def is_lfs_pointer(path: Path) -> bool:
    """Whether a file is the stand-in that Git LFS leaves when it did not fetch the real one."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(_LFS_HEAD)) == _LFS_HEAD
    except OSError:
        return False


def sha256_bytes(data: bytes) -> str:
    """SHA-256 of bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's content in hex, read as a stream in one buffer of 1 MiB.

    Raises:
        OSError: The file cannot be read.
    """
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(CHUNK_BYTES))
    with path.open("rb", buffering=0) as stream:
        while count := stream.readinto(buffer):
            digest.update(buffer[:count])
    return digest.hexdigest()
