from __future__ import annotations

import errno
import hashlib
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from chipwise.errors import BundleError, InputError, OutputError
from chipwise.files import (
    CHUNK_BYTES,
    free_bytes,
    full_disk,
    is_lfs_pointer,
    output_error,
    read_bounded,
    require_free,
    sha256_bytes,
    sha256_file,
    write_atomic,
    writing,
)

LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"


def test_write_atomic_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    target.write_text("old")
    write_atomic(target, "neu, 新")
    assert target.read_bytes() == "neu, 新".encode()
    assert os.listdir(tmp_path) == ["a.json"]


def test_write_atomic_gives_the_file_the_users_mode(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_atomic(tmp_path / "a", b"")
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_write_atomic_that_fails_keeps_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    target = tmp_path / "a"
    target.write_text("old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    monkeypatch.setattr(Path, call, full, raising=False)
    with pytest.raises(OutputError, match=r"no space left .* bytes free, 3 bytes needed\); free space"):
        write_atomic(target, b"new")
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_write_atomic_over_a_real_limit_of_the_system(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys, pathlib\n"
        "from chipwise.files import write_atomic\n"
        "from chipwise.errors import OutputError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n    write_atomic(pathlib.Path(sys.argv[1]) / 'big', bytes(5000))\n"
        "except OutputError as e:\n    sys.exit(str(e))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "takes no file that large" in done.stderr
    assert os.listdir(tmp_path) == []


def test_write_atomic_into_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write"):
        write_atomic(tmp_path / "none" / "a", b"")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (errno.ENOSPC, "no space left"),
        (errno.EDQUOT, "no space left"),
        (errno.EACCES, "not writable"),
        (errno.EROFS, "not writable"),
        (errno.EIO, "cannot write"),
    ],
)
def test_writing_names_the_cause_the_place_and_a_remedy(tmp_path: Path, number: int, text: str) -> None:
    with pytest.raises(OutputError, match=text) as caught, writing(tmp_path / "x"):
        raise OSError(number, os.strerror(number))
    assert caught.value.where == str(tmp_path / "x")
    assert caught.value.remedy
    assert caught.value.exit_code == 2


def test_output_error_without_an_errno_keeps_its_text(tmp_path: Path) -> None:
    found = str(output_error(OSError("500 requested and 12 written"), tmp_path))
    assert "the disk is full or failed (500 requested and 12 written; " in found


def test_a_full_disk_is_found_in_the_errors_of_libraries() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/a/b")
    wrapped = InputError("it fails")
    wrapped.__cause__ = RuntimeError("what the library says")
    wrapped.__cause__.__context__ = full
    assert full_disk(wrapped) is full
    assert full_disk(full) is full
    assert full_disk(OSError(errno.EIO, "Input/output error")) is None
    assert full_disk(InputError("no")) is None


def test_writing_lets_other_errors_through(tmp_path: Path) -> None:
    with pytest.raises(KeyError), writing(tmp_path):
        raise KeyError("x")


def test_free_bytes_of_a_path_that_is_not_there_yet(tmp_path: Path) -> None:
    assert free_bytes(tmp_path / "a" / "b") > 0


def test_require_free(tmp_path: Path) -> None:
    require_free(tmp_path, 1)
    with pytest.raises(OutputError, match=f"{1 << 80} bytes needed"):
        require_free(tmp_path / "not" / "there", 1 << 80)


def test_read_bounded_reads_up_to_the_bound(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_bounded(tmp_path / "a", 5) == b"12345"
    with pytest.raises(InputError, match="larger than the 4 bytes"):
        read_bounded(tmp_path / "a", 4)


def test_read_bounded_names_what_is_there_instead(tmp_path: Path) -> None:
    (tmp_path / "pointer").write_bytes(LFS_POINTER)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(BundleError, match="no such file"):
        read_bounded(tmp_path / "none", 10, error=BundleError)
    with pytest.raises(InputError, match="not a file"):
        read_bounded(tmp_path, 10)
    with pytest.raises(InputError, match=r"Git LFS pointer.*git lfs pull"):
        read_bounded(tmp_path / "pointer", 1000)
    with pytest.raises(InputError):
        read_bounded(tmp_path / "loop", 10)


def test_read_bounded_says_what_to_do(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(InputError, match="; name another"):
            read_bounded(path, 10, remedy="name another")
        with pytest.raises(InputError, match="; correct the path"):
            read_bounded(path, 10)
    (tmp_path / "long").write_bytes(b"12345")
    with pytest.raises(InputError, match="; check that it is the file you meant"):
        read_bounded(tmp_path / "long", 4)


def test_read_bounded_of_an_endless_device() -> None:
    with pytest.raises(InputError, match="not a file"):
        read_bounded(Path("/dev/zero"), 10)


def test_is_lfs_pointer(tmp_path: Path) -> None:
    (tmp_path / "pointer").write_bytes(LFS_POINTER)
    (tmp_path / "other").write_bytes(b"version 2")
    assert is_lfs_pointer(tmp_path / "pointer")
    assert not is_lfs_pointer(tmp_path / "other")
    assert not is_lfs_pointer(tmp_path / "none")


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1])
def test_sha256_file_at_the_edges_of_its_buffer(tmp_path: Path, size: int) -> None:
    data = bytes(i * 7 % 251 for i in range(size))
    (tmp_path / "a").write_bytes(data)
    assert sha256_file(tmp_path / "a") == hashlib.sha256(data).hexdigest() == sha256_bytes(data)


def test_sha256_file_holds_one_buffer_only(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    os.truncate(tmp_path / "a", 64 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sha256_file(tmp_path / "a")
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 16 << 10
