"""`chipwise suite`: makes suites of a domain, from a log of queries, and from other tools' files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from chipwise.cli.output_place import refuse_output
from chipwise.model.queries import read_queries
from chipwise.verify.domains import DOMAINS
from chipwise.verify.domains.suite_lines import CASES, LEAST, MOST, RECORD_LINES, domain_lines
from chipwise.verify.draft import draft_lines
from chipwise.verify.interop.imported import FORMATS, import_cases
from chipwise.verify.suite import read_suite
from chipwise.verify.suite_writer import write_suite


@click.group()
def suite() -> None:
    """Make the suites that models are judged by."""


@suite.command()
@click.option("--domain", required=True, type=click.Choice(list(DOMAINS)), help="What the agent is for.")
@click.option("--from", "log", type=click.Path(path_type=Path), help="Your queries, one JSON a line, to draft from.")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder of the suite.")
@click.option(
    "--cases", type=click.IntRange(LEAST, MOST), default=CASES, show_default=True, help="Cases; of a log at most."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of what is drawn.")
@click.option(
    "--record-lines", type=click.IntRange(4, 1000), default=RECORD_LINES, show_default=True, help="Of long records."
)
@click.option("--bare", is_flag=True, help="Without the system text that names tools and format.")
@click.option("--overwrite", is_flag=True, help="Replace the suite at OUTPUT.")
def new(
    domain: str, log: Path | None, output: Path, cases: int, seed: int, record_lines: int, bare: bool, overwrite: bool
) -> None:
    """Write a suite of four dimensions, half of it in Chinese, with the right answers.

    With --from, keyword and noise cases are drafted from your own queries: go over their keywords before you trust
    what it says.
    """
    refuse_output(output)
    if log is None:
        lines = domain_lines(domain, cases, seed, bare=bare, record_lines=record_lines)
        about = f"Generated: domain {domain}, seed {seed}. Every answer is known to be right."
    else:
        lines = draft_lines(read_queries(log), domain, cases, seed, bare=bare, record_lines=record_lines)
        about = (
            f"A draft from {log.name}, domain {domain}, seed {seed}.\n"
            "The keywords of cases named log-... are what their texts hold: correct those that an answer need not say."
        )
    write_suite(output, output.resolve().name, lines, about=about, record_lines=record_lines, overwrite=overwrite)
    _say(output, lines)


@suite.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder of the suite.")
@click.option("--format", "format_", type=click.Choice(list(FORMATS)), help="What FILE is.  [default: told by a line]")
@click.option("--overwrite", is_flag=True, help="Replace the suite at OUTPUT.")
def import_(file: Path, output: Path, format_: str | None, overwrite: bool) -> None:
    """Make a suite of FILE, a JSONL of another tool.

    Chat logs in OpenAI's shapes (conversations that end in an answer, batch files, request and response), samples
    that lm-evaluation-harness logged, and documents with a question, its answer and maybe choices.
    """
    refuse_output(output)
    found = import_cases(file, format_)
    about = f"Imported from {file.name} ({found.format})."
    name = output.resolve().name
    write_suite(output, name, found.lines, about=about, record_lines=RECORD_LINES, overwrite=overwrite)
    if found.left_out:
        shown = ", ".join(map(str, found.left_out[:5])) + (", ..." if len(found.left_out) > 5 else "")
        click.echo(f"left out, as they make no case: {len(found.left_out)} lines ({shown})")
    _say(output, found.lines)


def _say(folder: Path, lines: Sequence[dict[str, Any]]) -> None:
    # What is written must be readable, or a user finds out at the end of a build.
    found = Counter(case.dimension or "not scored" for case in read_suite(folder).cases)
    click.echo(f"{len(lines)} cases: {', '.join(f'{n} {dimension}' for dimension, n in found.items())}")
    click.echo(f"suite: {folder}")
