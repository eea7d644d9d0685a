from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chipwise.verify.domains.draw import Draw, clock_text


def test_the_stream_is_the_recorded_one() -> None:
    draw = Draw("chipwise")
    assert [draw.integer(0, 99) for _ in range(8)] == [51, 44, 8, 81, 67, 47, 59, 89]


@given(st.text(), st.integers(-1000, 1000), st.integers(0, 1000))
def test_integers_keep_to_their_bounds(seed: str, low: int, width: int) -> None:
    draw = Draw(seed)
    assert all(low <= draw.integer(low, low + width) <= low + width for _ in range(20))


@given(st.text(), st.lists(st.integers(), unique=True, max_size=20), st.data())
def test_a_sample_holds_different_items(seed: str, items: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, len(items)))
    chosen = Draw(seed).sample(items, count)
    assert len(chosen) == len(set(chosen)) == count
    assert set(chosen) <= set(items)


@given(st.text(), st.integers(1, 12))
def test_digits_have_the_length_asked_for(seed: str, count: int) -> None:
    assert len(Draw(seed).digits(count)) == count


def test_a_clock_wraps_at_midnight() -> None:
    assert [clock_text(minute) for minute in (0, 61, 1439, 1440)] == ["00:00", "01:01", "23:59", "00:00"]
