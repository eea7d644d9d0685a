from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.toolchain.spec import Pin
from tests.toolchain import fake


@pytest.mark.parametrize(
    ("pin", "version", "takes"),
    [
        ("torch==2.13.0", "2.13.0+cpu", True),
        ("torch==2.13.0", "2.13", True),
        ("torch==2.13.0", "2.13.1", False),
        ("torch==2.13.0", "2.130", False),
        ("setuptools<81", "80.10.2", True),
        ("setuptools<81", "81.0.0", False),
        ("setuptools<81", "9", True),
        ("a<=1.26.4", "1.26.4", True),
        ("a<=1.26.4", "1.26.10", False),
        ("a>=1.2", "1.10", True),
        ("a>=1.2", "1.1.9", False),
    ],
)
def test_pin_takes_a_version(pin: str, version: str, takes: bool) -> None:
    assert str(Pin.parse(pin)) == pin
    assert Pin.parse(pin).takes(version) is takes


@pytest.mark.parametrize("text", ["numpy", "numpy==", "numpy ==1", "==1", "a==1,<2", "--index-url==1", "a~=1"])
def test_a_text_that_is_no_pin_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not like numpy"):
        Pin.parse(text)


def test_sizes_add_up_and_the_last_pin_of_a_package_counts(tmp_path: Path) -> None:
    spec = fake.spec(tmp_path, "a==1", "b==1", "a==2")
    assert spec.size_bytes == 3000
    assert [str(pin) for pin in spec.pins] == ["a==2", "b==1"]
