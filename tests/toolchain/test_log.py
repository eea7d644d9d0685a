from __future__ import annotations

from pathlib import Path

from chipwise.toolchain.log import NewLines, joined, shortened, tail, telling


def test_tail_is_the_last_lines_with_text_and_no_colours(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\n" * 50 + b"\x1b[31mred\x1b[0m\n\n\xff\x00bad\r\n  last")
    assert tail(log, 4) == ("first", "red", "\ufffd bad", "last")


def test_tail_reads_only_the_end_of_a_large_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as stream:
        stream.truncate(8 << 30)
        stream.seek(8 << 30)
        stream.write(b"\nend")
    assert tail(log)[-1] == "end"


def test_no_log_has_no_lines(tmp_path: Path) -> None:
    assert tail(tmp_path / "absent") == ()
    assert joined(()) == ""


def test_telling_lines_are_those_that_match() -> None:
    lines = ("I a", "E RKNN: x", "E build: b")
    assert telling(lines, "^E (?!RKNN:)") == ("E build: b",)
    assert telling(lines, None) == ()


def test_joined_is_bounded() -> None:
    assert joined(("a", "b", "c", "d")) == "b | c | d"
    assert len(joined(("x" * 10_000,) * 3)) < 1000


def test_shortened_keeps_both_ends() -> None:
    assert shortened("a\n b") == "a b"
    long = shortened("start " + "x" * 10_000 + " end")
    assert long.startswith("start x")
    assert long.endswith("x end")
    assert len(long) < 520


def test_new_lines_are_read_once_and_only_whole(tmp_path: Path) -> None:
    log = tmp_path / "log"
    lines = NewLines(log)
    assert lines.read() == []
    log.write_bytes(b"one\ntw")
    assert lines.read() == ["one"]
    with log.open("ab") as stream:
        stream.write(b"o\nthree\n")
    assert lines.read() == ["two", "three"]
    assert lines.read() == []
