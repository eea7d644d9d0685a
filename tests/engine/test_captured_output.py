from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest

from chipwise.engine.captured_output import Captured, captured_output


def test_python_and_c_are_kept_and_shown_to_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    print("before")
    with captured_output() as found:
        print("python out")
        print("python err", file=sys.stderr)
        os.write(1, b"c out\n")
        os.write(2, b"c err \xff\n\n")
        subprocess.run(["echo", "child"], check=True)
    print("after")
    assert sorted(found.lines) == ["c err \ufffd", "c out", "child", "python err", "python out"]
    assert capfd.readouterr() == ("before\nafter\n", "")


def test_a_logger_that_is_set_up_inside_goes_on_outside(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.Logger("vendor")
    with captured_output() as found:
        logger.addHandler(logging.StreamHandler())
        logger.warning("inside")
    logger.warning("outside")
    assert found.lines == ["inside"]
    assert capsys.readouterr().err == "outside\n"


def _fails(found: list[Captured]) -> None:
    with captured_output() as output:
        found.append(output)
        os.write(2, b"last words\n")
        raise ValueError("odd")


def test_an_exception_leaves_the_output_as_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    found: list[Captured] = []
    with pytest.raises(ValueError, match="odd"):
        _fails(found)
    os.write(2, b"shown\n")
    assert found[0].text == "last words\n"
    assert capfd.readouterr().err == "shown\n"


def test_a_flood_is_cut() -> None:
    with captured_output() as found:
        for _ in range(40):
            os.write(1, b"x" * (1 << 16))
    assert len(found.text) == 1 << 20


def test_a_service_without_stderr() -> None:
    script = (
        "import os; os.close(2)\n"
        "from chipwise.engine.captured_output import captured_output\n"
        "with captured_output() as found:\n"
        "    os.write(1, b'one')\n"
        "print(found.text)"
    )
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True, text=True)
    assert done.stdout == "one\n"
