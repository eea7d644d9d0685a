from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.verify.scoring.entity import USUAL, missing_entities
from chipwise.verify.scoring.quantity import quantities_in, quantity_of
from chipwise.verify.scoring.units import UNITS, unit_named
from chipwise.verify.scoring.written import plain


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1.5 kg", "1500 g", True),
        ("1.5公斤", "1500克", True),
        ("3斤", "1.5kg", True),
        ("26°C", "78.8 °F", True),
        ("26 degrees", "26°C", True),
        ("26度", "26 摄氏度", True),
        ("90 s", "1.5 min", True),
        ("2 h", "120分钟", True),
        ("5 mW", "5 MW", False),
        ("5 mW", "0.005 W", True),
        ("100 km/h", "27.777777777777779 m/s", True),
        ("30%", "30 percent", True),
        ("1,500 g", "1.5 kg", True),
        ("1.5 kg", "1.5 g", False),
        ("5 m", "5 min", False),
        ("5 V", "5 A", False),
        ("26 °C", "26 °F", False),
        ("0 °C", "32 °F", True),
        ("-40 °C", "-40°F", True),
        ("5 m", "5 kg", False),
    ],
)
def test_the_same_quantity(one: str, other: str, same: bool) -> None:
    ours, theirs = quantity_of(one), quantity_of(other)
    assert ours is not None
    assert theirs is not None
    assert ours.says(theirs) == theirs.says(ours) == same


def test_a_bare_number_is_said_with_any_unit_but_not_the_other_way() -> None:
    bare, unit = quantity_of("26"), quantity_of("26 kg")
    assert bare is not None
    assert unit is not None
    assert unit.says(bare)
    assert not bare.says(unit)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("set 26 C", [26]),
        ('{"pan":-45}', [-45]),
        ("20-26 min", [20, 26]),
        ("cam-26 E123 v2.5x", []),
        ("at 12:26", []),
        ("1,500 and 2,5", [1500, 2, 5]),
        ("−5", [-5]),
        ("２６度", [26]),
        ("二十六度", [26]),
        ("26b7", []),
        ("", []),
        ("5kmh", [5]),
    ],
)
def test_numbers_in_a_text(text: str, values: list[float]) -> None:
    assert [quantity.value for quantity in quantities_in(text)] == values


def test_numerals_may_be_left_out() -> None:
    assert quantities_in("二十六度", numerals=False) == ()


@given(st.integers(-(10**6), 10**6), st.sampled_from(sorted(UNITS)))
def test_every_unit_is_read_behind_its_number(number: int, unit: str) -> None:
    found = quantity_of(f"{number} {unit}")
    assert found is not None
    assert found.value == number
    assert found.unit == UNITS[unit]


@given(st.text())
def test_any_text(text: str) -> None:
    for quantity in quantities_in(text):
        assert quantity.says(quantity)


OTHERS = (
    "Mb", "MB", "Gb", "GB", "kB", "TB", "MiB", "Mbps", "MBps", "Mb/s", "MB/s", "ft", "in", "lb", "oz", "nF",
    "µF", "mH", "kΩ", "MΩ", "mΩ", "Ω", "ppm", "N", "kN", "MN", "Nm", "mbar", "Mbar", "mS", "µS", "µA", "MV",
    "m/s²", "m³", "L/min", "°C/min", "W/m²", "VA", "dBm",
    "元", "万元", "美元", "个", "次", "次/分", "年", "月", "号", "档",
    "级", "里", "海里", "英尺", "微安", "毫亨", "兆欧", "毫欧", "千安", "兆字节", "‰",
)  # fmt: skip


@given(st.sampled_from([*UNITS, *OTHERS]), st.sampled_from([*UNITS, *OTHERS]), st.integers(1, 999))
def test_no_unit_is_another(one: str, other: str, number: int) -> None:
    ours, theirs = plain(one), plain(other)
    units = unit_named(ours), unit_named(theirs)
    said = not missing_entities([f"{number} {one}"], f"set to {number} {other} now", USUAL)
    if ours == theirs or (units[0] is not None and units[0] == units[1]):
        assert said
    elif None in units or units[0].dimension != units[1].dimension:  # type: ignore[union-attr]
        assert not said or {unit and unit.dimension for unit in units} == {"degree", "temperature"}
    elif units[0].dimension != "temperature":  # type: ignore[union-attr]
        assert not said
