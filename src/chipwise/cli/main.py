"""The `chipwise` command: finds the command named, runs it, and turns errors into one line and an exit code."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence

import click

from chipwise import __version__
from chipwise.errors import ChipwiseError, DependencyError, InputError

# Command name -> (module, attribute, summary). Loaded on use, so that a device needs no host package for `serve`,
# and --help needs none at all.
_COMMANDS = {
    "targets": ("chipwise.cli.targets", "targets", "The catalogue of targets, with the source of every number."),
    "check": ("chipwise.cli.check", "check", "Check a model against a target."),
    "build": ("chipwise.cli.build", "build", "Turn a model into a verified bundle for a target."),
    "verify": ("chipwise.cli.verify", "verify", "Run a bundle on a suite of tasks again."),
    "compare": ("chipwise.cli.compare", "compare", "Two bundles of one model beside each other."),
    "suite": ("chipwise.cli.suite", "suite", "Make a suite: of a domain, from your log, from other tools' files."),
    "bundle": ("chipwise.cli.bundle", "bundle", "Put further forms of a model into its bundle."),
    "serve": ("chipwise.cli.serve", "serve", "Serve a bundle to OpenAI clients."),
    "board": ("chipwise.cli.board", "board", "Show a board's temperature, power, clocks, load and memory."),
    "inspect": ("chipwise.cli.inspect", "inspect", "Show what a bundle holds."),
    "toolchain": ("chipwise.cli.toolchain", "toolchain", "Install vendor compilers, each in its own environment."),
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        try:
            command = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as e:
            if e.name is None or e.name.startswith("chipwise"):
                raise
            raise DependencyError(
                f"`chipwise {cmd_name}` needs the package {e.name}, which is not installed",
                remedy="pip install 'chipwise[build]' (Python 3.11 or newer)",
            ) from e
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}.{attribute} is no click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, _, summary) in _COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="chipwise")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Put language-model agents on edge chips, and prove that they still do their job there."""
    del debug  # read from argv by main(), which must know it even when parsing fails


def main(argv: list[str] | None = None) -> int:
    """Run the command line.

    Returns:
        0 done, 1 the answer is no, 2 the user's input is wrong, 3 something broke, 130 interrupted.
    """
    args = sys.argv[1:] if argv is None else argv
    debug = "--debug" in args
    try:
        _refuse_undecodable(args)
        result = cli.main(args=args, standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        return 130
    except click.ClickException as e:
        click.echo(f"error: {' '.join(e.format_message().split()).rstrip('.')}{_help_hint(e)}", err=True)
        return 2
    except ChipwiseError as e:
        if debug:
            traceback.print_exc()
        click.echo(f"error: {e}", err=True)
        return e.exit_code
    except Exception as e:
        if debug:
            raise
        click.echo(f"error: {type(e).__name__}: {e}; run again with --debug for the traceback", err=True)
        return 3
    return result if isinstance(result, int) else 0


def _refuse_undecodable(args: Sequence[str]) -> None:
    """Refuse arguments that are no text: names of files end in reports and manifests, which hold UTF-8.

    Raises:
        InputError: One is not.
    """
    for arg in args:
        try:
            arg.encode()
        except UnicodeEncodeError as e:
            shown = os.fsencode(arg).decode("utf-8", "backslashreplace")
            raise InputError("the argument is not UTF-8", where=shown, remedy="rename the file, or type it anew") from e


def _help_hint(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return f"; see {context.command_path} --help" if context else ""


def _terminate(number: int, frame: object) -> None:
    """End as on Ctrl-C, so that nothing half-written stays. A server has handlers of its own."""
    raise SystemExit(128 + number)


def run() -> int:
    """The program: `main` in a process of its own."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # Under nohup a hangup is to be ignored.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _terminate)
    return main()


if __name__ == "__main__":
    sys.exit(run())
