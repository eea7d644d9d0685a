"""Write the pages under docs/ that come from the code, or with --check say which are out of date."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path

import click

from chipwise.cli.main import cli

DOCS = Path(__file__).parent.parent / "docs"
EXIT_CODES = (
    "Exit codes: 0 done; 1 the answer is no (a gate failed, a check found errors); 2 the input is wrong;\n"
    "3 something broke; 130 interrupted. An error is one line: where, what, what to do."
)
NOTE = "<!-- Written by scripts/gen_docs.py from the code: do not edit. -->\n\n"


def command_page() -> str:
    """Every command with its arguments and options."""
    context = click.Context(cli, info_name="chipwise")
    parts = ["# Commands\n", f"{cli.help}\n", f"{EXIT_CODES}\n", "```", "chipwise [OPTIONS] COMMAND", "```\n"]
    parts += option_table(cli)
    for name in cli.list_commands(context):
        if exists(f"chipwise.cli.{name}"):
            command = cli.get_command(context, name)
            if command is not None:
                parts += command_section(f"chipwise {name}", command)
    return "\n".join(parts)


def command_section(title: str, command: click.Command) -> list[str]:
    """The Markdown of one command, and of its subcommands after it."""
    arguments = [argument(p) for p in command.params if isinstance(p, click.Argument)]
    parts = [f"## {title}\n", f"{paragraphs(command.help or '')}\n"]
    if isinstance(command, click.Group):
        for name, sub in sorted(command.commands.items()):
            parts += command_section(f"{title} {name}", sub)
        return parts
    parts += ["```", " ".join([title, "[OPTIONS]", *arguments]), "```\n"]
    return parts + option_table(command)


def option_table(command: click.Command) -> list[str]:
    """The Markdown of a command's own options."""
    options = [option_row(p) for p in command.params if isinstance(p, click.Option) and not p.hidden]
    return ["| option | meaning |", "|---|---|", *options, ""] if options else []


def argument(one: click.Argument) -> str:
    """An argument as a command line shows it."""
    name = one.metavar or str(one.name).upper()
    return name if one.required else f"[{name}]"


def option_row(option: click.Option) -> str:
    """One row of the table of options. Click's own help text changes its form between versions; this does not."""
    kind = option.type
    if option.is_flag or option.count:
        value = ""
    elif option.metavar or not isinstance(kind, click.Choice):
        value = " " + (option.metavar or kind.name.upper())
    else:
        value = " " + r"\|".join(str(choice) for choice in kind.choices)
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    text = " ".join((option.help or "").split()).replace("|", r"\|")
    if option.required:
        text += " Required."
    elif isinstance(option.default, str | int | float | Path) and not option.is_flag and "efault" not in text:
        text += f" Default: {option.default}."
    return f"| {names}{value} | {text} |"


def paragraphs(text: str) -> str:
    """Help text without click's marks."""
    return inspect.cleandoc(text.replace("\b\n", "").replace("\f", ""))


def exists(module: str) -> bool:
    """Whether a module is there."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def rendered_by(module: str) -> Callable[[], str] | None:
    """The ``render`` of a module that makes its own page, None if there is no such module."""
    if not exists(module):
        return None
    render: Callable[[], str] = importlib.import_module(module).render
    return render


PAGES: dict[str, Callable[[], str] | None] = {
    "cli.md": command_page,
    "rules.md": rendered_by("chipwise.check.docs"),
    "targets.md": rendered_by("chipwise.target.docs"),
}


def main() -> int:
    """Write all pages, or with --check compare them; 1 if one is out of date."""
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        print("usage: gen_docs.py [--check]", file=sys.stderr)
        return 2
    stale = []
    for name, render in PAGES.items():
        if render is None:
            continue
        page, text = DOCS / name, NOTE + render().strip() + "\n"
        if not check:
            page.write_text(text, "utf-8")
        elif not page.exists() or page.read_text("utf-8") != text:
            stale.append(f"docs/{name} is out of date; run python scripts/gen_docs.py")
    print(
        "\n".join(stale)
        if stale
        else f"{', '.join(n for n, r in PAGES.items() if r)}: {'up to date' if check else 'written'}"
    )
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
