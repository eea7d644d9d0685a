from __future__ import annotations

import json
from pathlib import Path

import pytest

from chipwise.target import Provenance, Quantity
from chipwise.target.host import speed
from chipwise.target.host.machine import Machine, look
from tests.target.host import trees


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return look(trees.x86(tmp_path / "root"), frozenset(range(4)))


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stand-ins for the measurements, which note that they were called."""
    calls: list[str] = []

    def fake(unit: str, value: float) -> Quantity:
        calls.append(unit)
        return Quantity(value, unit, Provenance("measured", "fake", "2026-11-29"))

    monkeypatch.setattr(speed, "read_bandwidth", lambda machine, today: fake("B/s", 20e9))
    monkeypatch.setattr(speed, "matmul_throughput", lambda machine, dtype, today: fake("op/s", 1e11))
    monkeypatch.setattr(speed, "opset_max", lambda today: None)
    monkeypatch.setattr(speed, "_load", lambda machine: 0.1)
    return calls


def test_measured_once_then_read_from_the_cache(machine: Machine, tmp_path: Path, measured: list[str]) -> None:
    first = speed.host_speed(machine, tmp_path / "cache")
    second = speed.host_speed(machine, tmp_path / "cache")
    assert first == second
    assert first is not None
    assert first.read_bps.value == 20e9
    assert measured == ["B/s", "op/s", "op/s"]
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".json"]


def test_again_and_never(machine: Machine, tmp_path: Path, measured: list[str]) -> None:
    assert speed.host_speed(machine, tmp_path / "cache", "never") is None
    assert measured == []
    speed.host_speed(machine, tmp_path / "cache")
    speed.host_speed(machine, tmp_path / "cache", "again")
    assert measured == ["B/s", "op/s", "op/s"] * 2
    assert speed.host_speed(machine, tmp_path / "cache", "never") is not None


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"null", b"\xff\xfe", b"[]", b'{"key": "x"}', b"0" * (1 << 17)],
    ids=["empty", "cut", "null", "binary", "list", "incomplete", "huge"],
)
def test_a_damaged_cache_is_measured_anew(
    machine: Machine, tmp_path: Path, measured: list[str], content: bytes
) -> None:
    folder = tmp_path / "cache"
    good = speed.host_speed(machine, folder)
    (path,) = folder.iterdir()
    path.write_bytes(content)
    assert speed.host_speed(machine, folder) == good
    assert len(measured) == 6
    assert json.loads(path.read_bytes())["key"] == good.key if good else False


@pytest.mark.parametrize(("field", "value"), [("value", 0), ("value", "fast"), ("unit", "GB/s"), ("colour", 1)])
def test_a_cache_that_says_nonsense_is_measured_anew(
    machine: Machine, tmp_path: Path, measured: list[str], field: str, value: object
) -> None:
    speed.host_speed(machine, tmp_path / "cache")
    (path,) = (tmp_path / "cache").iterdir()
    stored = json.loads(path.read_bytes())
    stored["read_bps"][field] = value
    path.write_text(json.dumps(stored))
    speed.host_speed(machine, tmp_path / "cache")
    assert len(measured) == 6


def test_a_cache_of_another_machine_does_not_count(machine: Machine, tmp_path: Path, measured: list[str]) -> None:
    speed.host_speed(machine, tmp_path / "cache")
    (path,) = (tmp_path / "cache").iterdir()
    stored = json.loads(path.read_bytes())
    path.write_text(json.dumps({**stored, "key": "another"}))
    assert speed.host_speed(machine, tmp_path / "cache", "never") is None


def test_fewer_cores_are_another_machine(machine: Machine, tmp_path: Path, measured: list[str]) -> None:
    speed.host_speed(machine, tmp_path / "cache")
    fewer = look(tmp_path / "root", frozenset({0}))
    assert speed.host_speed(fewer, tmp_path / "cache", "never") is None


def test_a_cache_that_cannot_be_written_costs_no_error(machine: Machine, tmp_path: Path, measured: list[str]) -> None:
    (tmp_path / "file").write_text("")
    assert speed.host_speed(machine, tmp_path / "file" / "cache") is not None


@pytest.mark.parametrize(("value", "expected"), [("/x", "/x/chipwise"), ("relative", None), ("", None)])
def test_the_cache_lies_where_xdg_says(monkeypatch: pytest.MonkeyPatch, value: str, expected: str | None) -> None:
    monkeypatch.delenv("CHIPWISE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert str(speed.cache_folder()) == (expected or "/home/somebody/.cache/chipwise")


def test_what_a_busy_machine_gave_is_measured_anew_when_it_is_quiet(
    machine: Machine, tmp_path: Path, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "_load", lambda machine: 3.0)
    busy = speed.host_speed(machine, tmp_path / "cache")
    assert busy is not None
    assert busy.read_bps.note == "perhaps too low: the machine was busy (3.0 programs a core)"
    speed.host_speed(machine, tmp_path / "cache")
    assert len(measured) == 3
    monkeypatch.setattr(speed, "_load", lambda machine: 0.2)
    quiet = speed.host_speed(machine, tmp_path / "cache")
    assert quiet is not None
    assert quiet.read_bps.note == ""
    assert speed.host_speed(machine, tmp_path / "cache") == quiet
    assert len(measured) == 6


def test_the_user_names_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    monkeypatch.setenv("CHIPWISE_CACHE", str(tmp_path))
    assert speed.cache_folder() == tmp_path
