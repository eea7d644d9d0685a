from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chipwise.bundle import BundleWriter, TensorEntry, open_bundle
from chipwise.errors import BundleError, OutputError
from chipwise.model.scheme import FLOAT32
from tests.bundle.fakes import a_manifest, write_bundle


def test_files_are_stored_by_their_digest_and_moved_not_copied(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "b") as writer:
        made = writer.scratch("w")
        made.write_bytes(b"weights")
        inode = made.stat().st_ino
        name = writer.add_file("weights", made, ".bin")
        assert not made.exists()
        assert writer.path("weights").read_bytes() == b"weights"
        writer.commit(a_manifest(tensors={}))
    kept = tmp_path / "b" / "files" / name
    assert kept.stat().st_ino == inode
    assert len(name) == 64 + 4
    assert os.listdir(tmp_path) == ["b"]
    assert sorted(os.listdir(tmp_path / "b")) == ["files", "manifest.json", "manifest.sha256"]


def test_equal_files_are_stored_once(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "b") as writer:
        assert writer.add_bytes("prefill", b"same", ".onnx") == writer.add_bytes("decode", b"same", ".onnx")
        writer.commit(a_manifest(tensors={}))
    assert len(os.listdir(tmp_path / "b" / "files")) == 1
    assert set(open_bundle(tmp_path / "b").files) == {"prefill", "decode"}


def test_parents_are_made(tmp_path: Path) -> None:
    assert open_bundle(write_bundle(tmp_path / "out" / "deep" / "b")).path == tmp_path / "out" / "deep" / "b"


def test_a_relative_path_survives_a_change_of_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with BundleWriter(Path("b")) as writer:
        writer.add_bytes("decoder", b"x", ".onnx")
        monkeypatch.chdir(tmp_path / "other")
        writer.commit(a_manifest(tensors={}))
    assert set(open_bundle(tmp_path / "b").files) == {"decoder"}
    assert os.listdir(tmp_path / "other") == []


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_interrupted_build_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    def build() -> None:
        with BundleWriter(tmp_path / "out" / "b") as writer:
            writer.add_bytes("decoder", b"x", ".onnx")
            writer.scratch("half").write_bytes(b"half")
            raise error

    with pytest.raises(error):
        build()
    assert os.listdir(tmp_path) == []


def test_a_build_that_is_not_committed_leaves_nothing(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "b") as writer:
        writer.add_bytes("decoder", b"x", ".onnx")
    assert os.listdir(tmp_path) == []


def test_parents_that_others_use_by_now_stay(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "out" / "b"):
        (tmp_path / "out" / "mine").touch()
    assert os.listdir(tmp_path / "out") == ["mine"]


def test_a_bundle_that_is_there_is_replaced_only_when_asked(tmp_path: Path) -> None:
    built = write_bundle(tmp_path / "b")
    with pytest.raises(
        OutputError, match="a bundle is there already; choose another folder, or replace it with --overwrite"
    ):
        write_bundle(built)
    write_bundle(built, manifest=a_manifest(name="new"), overwrite=True)
    assert open_bundle(built).manifest.name == "new"
    assert os.listdir(tmp_path) == ["b"]


def test_the_old_bundle_serves_until_the_new_one_is_whole(tmp_path: Path) -> None:
    built = write_bundle(tmp_path / "b")
    with BundleWriter(built, overwrite=True) as writer:
        writer.add_bytes("decoder", b"x", ".onnx")
        assert open_bundle(built).manifest.name == "tiny"
    assert open_bundle(built).manifest.name == "tiny"
    assert os.listdir(tmp_path) == ["b"]


@pytest.mark.parametrize("failing", [1, 2])
def test_a_failed_rename_keeps_the_old_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    built = write_bundle(tmp_path / "b")
    real, calls = Path.rename, []

    def rename(self: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) == failing:
            raise OSError(errno.EIO, "Input/output error")
        return real(self, target)

    with BundleWriter(built, overwrite=True) as writer:
        writer.add_bytes("decoder", b"x", ".onnx")
        monkeypatch.setattr(Path, "rename", rename)
        with pytest.raises(OutputError, match="cannot write"):
            writer.commit(a_manifest(tensors={}))
    assert len(open_bundle(built).files) == 2
    assert os.listdir(tmp_path) == ["b"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_is_no_bundle_is_never_replaced(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "link").symlink_to(write_bundle(tmp_path / "b"))
    for name in ("file", "folder", "dangling", "link"):
        with pytest.raises(OutputError, match="exists and is no bundle"):
            write_bundle(tmp_path / name, overwrite=overwrite)
    assert (tmp_path / "file").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["b", "dangling", "file", "folder", "link"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    assert open_bundle(write_bundle(tmp_path / "b")).path == tmp_path / "b"


def test_a_folder_that_filled_meanwhile_is_kept(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "b") as writer:
        writer.add_bytes("decoder", b"x", ".onnx")
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "thesis.tex").touch()
        with pytest.raises(OutputError, match="exists and is no bundle"):
            writer.commit(a_manifest(tensors={}))
    assert os.listdir(tmp_path / "b") == ["thesis.tex"]


def test_two_builds_into_one_place(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "b") as first:
        first.add_bytes("decoder", b"x", ".onnx")
        with pytest.raises(OutputError, match="another build is writing there"):
            write_bundle(tmp_path / "b")
        first.commit(a_manifest(tensors={}))
    assert set(open_bundle(tmp_path / "b").files) == {"decoder"}


def test_what_a_killed_build_left_is_cleared_by_the_next(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, signal, sys\n"
        "from chipwise.bundle import BundleWriter\n"
        "with BundleWriter(pathlib.Path(sys.argv[1])) as writer:\n"
        "    writer.add_bytes('decoder', b'x', '.onnx')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "b")], check=False)
    assert done.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == [".b.part"]
    write_bundle(tmp_path / "b")
    assert os.listdir(tmp_path) == ["b"]


def test_power_cut_between_the_two_renames_gives_the_old_bundle_back(tmp_path: Path) -> None:
    built = write_bundle(tmp_path / "b", manifest=a_manifest(name="old"))
    built.rename(tmp_path / ".b.old")
    with BundleWriter(built, overwrite=True):
        assert open_bundle(built).manifest.name == "old"
    assert open_bundle(built).manifest.name == "old"
    assert os.listdir(tmp_path) == ["b"]


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("module", "name"),
    [(os, "fsync"), (shutil, "move"), (os, "mkdir")],
)
def test_a_full_disk_says_so_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: object, name: str
) -> None:
    (tmp_path / "source").write_bytes(bytes(1234))
    monkeypatch.setattr(module, name, full)
    monkeypatch.setattr(Path, name, full, raising=False)
    with pytest.raises(OutputError, match="no space left"), BundleWriter(tmp_path / "b") as writer:
        writer.add_file("weights", tmp_path / "source", ".bin")
    assert set(os.listdir(tmp_path)) <= {"source"}


def test_a_full_disk_says_how_much_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source").write_bytes(bytes(1234))
    with BundleWriter(tmp_path / "b") as writer:
        monkeypatch.setattr(shutil, "move", full)
        with pytest.raises(OutputError, match=r"\d+ bytes free, 1234 bytes needed"):
            writer.add_file("weights", tmp_path / "source", ".bin")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="not writable"):
        write_bundle(tmp_path / "b")
    tmp_path.chmod(0o700)


def test_a_parent_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write"):
        write_bundle(tmp_path / "file" / "b")


def test_a_role_or_document_twice(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "b") as writer:
        writer.add_bytes("decoder", b"x", ".onnx")
        writer.add_document("report.json", b"{}")
        with pytest.raises(OutputError, match="role decoder is there already"):
            writer.add_bytes("decoder", b"y", ".onnx")
        for name in ("report.json", "manifest.json"):
            with pytest.raises(OutputError, match="is there already"):
                writer.add_document(name, b"{}")
        with pytest.raises(OutputError, match="no file of role weights"):
            writer.path("weights")


def test_a_manifest_that_would_not_open_is_not_committed(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "b") as writer:
        writer.add_bytes("weights", b"1234", ".bin")
        with pytest.raises(BundleError, match="tensor w ends at byte 8 of 4"):
            writer.commit(a_manifest(tensors={"w": TensorEntry(FLOAT32, "weights", 4, 4)}))
    assert os.listdir(tmp_path) == []
