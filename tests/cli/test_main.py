from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest

from chipwise import __version__
from chipwise.cli import main as main_module
from chipwise.cli.main import _terminate, cli, main
from chipwise.errors import EngineError, GateFailedError, InputError


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> list[BaseException | int | None]:
    """A command `odd` that raises or returns what the list holds."""
    outcome: list[BaseException | int | None] = []

    @click.command()
    def odd() -> int | None:
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return outcome[0]

    commands = cli.get_command
    monkeypatch.setattr(cli, "get_command", lambda ctx, name: odd if name == "odd" else commands(ctx, name))
    return outcome


@pytest.mark.parametrize(
    ("outcome", "code", "text"),
    [
        (None, 0, ""),
        (0, 0, ""),
        (1, 1, ""),
        (GateFailedError("top1 too low"), 1, "error: top1 too low\n"),
        (InputError("bad", where="a.onnx", remedy="mend it"), 2, "error: a.onnx: bad; mend it\n"),
        (EngineError("lost\ndevice"), 3, "error: lost device\n"),
        (ZeroDivisionError("by zero"), 3, "error: ZeroDivisionError: by zero; run again with --debug"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_exit_codes_and_one_line_errors(
    command: list[BaseException | int | None],
    capsys: pytest.CaptureFixture[str],
    outcome: BaseException | int | None,
    code: int,
    text: str,
) -> None:
    command.append(outcome)
    assert main(["odd"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    # Click moves to a new line after the ^C of a terminal.
    assert err.lstrip("\n").startswith(text)
    assert err.lstrip("\n").count("\n") == bool(text)


def test_debug_shows_the_traceback(
    command: list[BaseException | int | None], capsys: pytest.CaptureFixture[str]
) -> None:
    command.append(InputError("bad"))
    assert main(["--debug", "odd"]) == 2
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.endswith("error: bad\n")
    command[0] = ZeroDivisionError("by zero")
    with pytest.raises(ZeroDivisionError):
        main(["--debug", "odd"])


@pytest.mark.parametrize("args", [["nonsense"], ["--nonsense"], ["inspect"], ["inspect", "--nonsense", "x"]])
def test_wrong_usage_is_exit_code_2(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_a_signal_ends_as_ctrl_c_does() -> None:
    with pytest.raises(SystemExit) as e:
        _terminate(15, None)
    assert e.value.code == 143


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


def test_every_command_named_is_there_and_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    context = click.Context(cli)
    for name in cli.list_commands(context):
        found = cli.get_command(context, name)
        assert found is not None
        assert found.help, name
        assert main([name, "--help"]) == 0
        assert "Usage: " in capsys.readouterr().out


def test_a_missing_host_package_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(main_module._COMMANDS, "inspect", ("onnx_that_is_not_there", "x", ""))
    assert main(["inspect", "x"]) == 2
    assert capsys.readouterr().err == (
        "error: `chipwise inspect` needs the package onnx_that_is_not_there, which is not installed; "
        "pip install 'chipwise[build]' (Python 3.11 or newer)\n"
    )


def test_a_missing_module_of_our_own_is_no_missing_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(main_module._COMMANDS, "inspect", ("chipwise.cli.none", "x", ""))
    assert main(["inspect", "x"]) == 3
    assert "ModuleNotFoundError" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_told_nothing() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "chipwise.cli.main", "--help"],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.stderr == ""


def test_help_loads_no_command_so_a_device_can_show_it() -> None:
    code = (
        "import sys\n"
        "from chipwise.cli.main import main\n"
        "main(sys.argv[1:])\n"
        "heavy = {'onnx', 'onnxruntime', 'numpy', 'torch', 'chipwise.bundle'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert all(name in done.stdout for name in main_module._COMMANDS)


def test_an_argument_that_is_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", os.fsdecode(b"bad\xff")]) == 2
    assert capsys.readouterr().err == "error: bad\\xff: the argument is not UTF-8; rename the file, or type it anew\n"
