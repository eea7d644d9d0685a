from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.errors import DependencyError
from chipwise.toolchain.environment import Environment, State, default_root
from chipwise.toolchain.stamp import Stamp
from tests.toolchain import fake


def test_root_is_the_users_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CHIPWISE_TOOLCHAINS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for relative in ("", "data"):
        monkeypatch.setenv("XDG_DATA_HOME", relative)
        assert default_root() == tmp_path / ".local" / "share" / "chipwise" / "toolchains"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "x"))
    assert default_root() == tmp_path / "x" / "chipwise" / "toolchains"
    monkeypatch.setenv("CHIPWISE_TOOLCHAINS", "~/mine")
    assert default_root() == tmp_path / "mine"


def test_state_follows_the_stamp_and_the_python(tmp_path: Path) -> None:
    absent = Environment(fake.spec(tmp_path), tmp_path / "root")
    assert absent.state is State.ABSENT
    environment = fake.environment(tmp_path)
    assert environment.state is State.READY
    Stamp(made=True).write(environment.stamp_file)
    assert environment.state is State.PARTIAL
    with pytest.raises(DependencyError, match="half installed; run `chipwise toolchain install fake`"):
        environment.require_ready()
    Stamp(made=True, proven=True).write(environment.stamp_file)
    environment.require_ready()
    environment.python.unlink()
    assert environment.state is State.PARTIAL


@pytest.mark.parametrize("text", ["", "{}", "[]", "\x00", '{"made": true, "started": null, "done": 3, "proven": true}'])
def test_a_broken_stamp_counts_as_nothing_done(tmp_path: Path, text: str) -> None:
    (tmp_path / "stamp.json").write_text(text)
    assert Stamp.read(tmp_path / "stamp.json") == Stamp()


def test_a_stamp_comes_back_as_written(tmp_path: Path) -> None:
    stamp = Stamp(made=True, started=["b==1"], done=(["--no-deps", "a==1"],))
    stamp.write(tmp_path / "stamp.json")
    assert Stamp.read(tmp_path / "stamp.json") == stamp
    assert Stamp.read(tmp_path / "absent.json") is None
