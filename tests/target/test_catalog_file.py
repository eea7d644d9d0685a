from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chipwise.target
from chipwise.errors import InputError
from chipwise.target import Chip
from chipwise.target.catalog_file import read

COMMON = Path(chipwise.target.__file__).parent / "catalog" / "common"
GOOD = """
name = "mychip"
vendor = "Me"
engines = ["onnxruntime"]
base = ["onnxruntime"]
[sources]
sheet = { kind = "vendor", source = "data sheet 1.2", date = 2026-10-01 }
[[units]]
name = "cpu"
kind = "cpu"
count = { value = 4, source = "sheet" }
clock_hz = { value = "2.4 GHz", source = "sheet", note = "boost" }
[[memory]]
name = "dram"
role = "main"
read_bps = { value = "12.8 GB/s", source = "sheet" }
[constraints]
opset_max = { value = 19, source = "sheet" }
"""


def _read(tmp_path: Path, text: str | bytes, name: str = "mychip") -> Chip:
    path = tmp_path / f"{name}.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    noun = read(path, COMMON)
    assert isinstance(noun, Chip)
    return noun


def test_a_good_file_is_read_with_units_and_sources(tmp_path: Path) -> None:
    chip = _read(tmp_path, GOOD)
    clock = chip.units[0].clock_hz
    assert clock is not None
    assert (clock.value, clock.unit, clock.note) == (2.4e9, "Hz", "boost")
    assert clock.provenance.line() == "vendor: data sheet 1.2 (2026-10-01)"


def test_a_base_fills_in_and_the_chip_counts_more(tmp_path: Path) -> None:
    constraints = _read(tmp_path, GOOD).constraints
    assert constraints.opset_max is not None
    assert constraints.opset_max.value == 19
    assert constraints.static_shapes is not None
    assert constraints.static_shapes.value is False
    assert [s.name for s in constraints.schemes] == ["fp32", "w8a8", "w8a16", "w4a16"]


def test_lists_of_the_chip_come_before_those_of_the_base(tmp_path: Path) -> None:
    own = GOOD + '[[constraints.placement]]\nplace = "unsupported"\nops = ["Loop"]\nsource = "sheet"\n'
    placed = _read(tmp_path, own).constraints.place("Loop")
    assert placed is not None
    assert placed.place == "unsupported"


BAD = [
    ("typo in a key", ("clock_hz", "clok_hz"), r"units\[0\]\.clok_hz: unknown key"),
    ("a key at the top", ('vendor = "Me"', 'vendor = "Me"\nvendr = "x"'), "vendr: unknown key"),
    ("no such kind", ('kind = "cpu"', 'kind = "tpu"'), r"units\[0\]\.kind: Input should be 'cpu'"),
    ("no source", (', source = "sheet", note = "boost"', ""), r"units\[0\]\.clock_hz: has no source"),
    ("unknown source", ('value = 19, source = "sheet"', 'value = 19, source = "blog"'), r"no \[sources\.blog\]"),
    ("source of no kind", ('kind = "vendor"', 'kind = "rumour"'), r"provenance\.kind: Input should be 'vendor'"),
    ("source without date", (", date = 2026-10-01", ""), r"provenance\.date: is missing"),
    ("wrong unit", ("2.4 GHz", "2.4 GB"), r"units\[0\]\.clock_hz: expected Hz, got B"),
    ("unknown unit", ("2.4 GHz", "2.4 gigahertz"), r"units\[0\]\.clock_hz\.value: unknown unit 'gigahertz'"),
    ("unit where a count belongs", ("value = 4", 'value = "4 GHz"'), "count: expected a plain number, got Hz"),
    ("count where a unit belongs", ('value = "2.4 GHz"', "value = 2400"), "clock_hz: expected Hz, got a plain number"),
    ("zero for unknown", ("value = 4", "value = 0"), r"count\.value: expected a number above 0"),
    ("infinite", ("value = 4", "value = inf"), r"count\.value: expected a number above 0"),
    ("bare number", ('{ value = 4, source = "sheet" }', "4"), "count: expected a table with value and source"),
    ("truth for a number", ("value = 4", "value = true"), "count.value: expected a number"),
    ("word for a number", ("value = 4", 'value = "four"'), "count.value: expected a number, or a number and its unit"),
    ("no vendor", ('vendor = "Me"', ""), "vendor: is missing"),
    ("no engines", ('engines = ["onnxruntime"]', "engines = []"), "engines: is empty"),
    ("unknown base", ('base = ["onnxruntime"]', 'base = ["onnx"]'), "base: there is none called 'onnx'"),
    ("base is no list", ('base = ["onnxruntime"]', 'base = "onnxruntime"'), "base: expected a list"),
    ("no TOML", ("[sources]", "[sources"), "is no valid TOML"),
    ("sources is no table", ("[sources]", "sources = 3\n[x]"), "sources: expected a table"),
    ("another name", ('name = "mychip"', 'name = "other"'), "name: is 'other', but the file is called mychip.toml"),
]


@pytest.mark.parametrize(("change", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_a_wrong_file_gives_one_clear_line(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in GOOD
    with pytest.raises(InputError, match=message) as caught:
        _read(tmp_path, GOOD.replace(*change))
    line = str(caught.value)
    assert "mychip.toml: " in line
    assert "docs/targets.md" in line
    assert "\n" not in line


def test_several_errors_are_counted(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\(and 1 more\)"):
        _read(tmp_path, GOOD.replace('kind = "cpu"', 'kind = "tpu"').replace("clock_hz", "clok_hz"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe\x00", "is not UTF-8"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"#" * (1 << 21), "larger than"),
        (b"", "is missing"),
    ],
)
def test_a_file_that_is_none_gives_one_clear_line(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        _read(tmp_path, content)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_damaged_file_ends_in_an_input_error_or_a_chip(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(GOOD)))
    end = data.draw(st.integers(start, min(len(GOOD), start + 40)))
    junk = data.draw(st.text(st.sampled_from('={}[]"\n. 1aé'), max_size=8))
    with contextlib.suppress(InputError):  # anything else would fail the test
        assert _read(tmp_path_factory.mktemp("damaged"), GOOD[:start] + junk + GOOD[end:]).name == "mychip"
