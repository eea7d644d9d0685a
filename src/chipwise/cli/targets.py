"""`chipwise targets`: the catalogue, and all that is known of one target."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, astuple, fields
from itertools import groupby
from pathlib import Path

import click

from chipwise.target.catalog import catalog, host, load_target
from chipwise.target.describe import UNVERIFIED, Row, Summary, rows, summary
from chipwise.target.target import Target


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--measure", is_flag=True, help="Measure the host's speed again, even if it is known.")
@click.option(
    "--folder",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Folder with chips and boards of your own; may be given several times [default: CHIPWISE_TARGETS].",
)
def targets(name: str | None, as_json: bool, measure: bool, folders: tuple[Path, ...]) -> None:
    """List the known chips and boards, or tell all about one, with the source of every number.

    NAME is a chip (rk3588), a chip in another mode (rk3588@ddr-4224), a board of your own, or host.
    """
    own = folders or None
    if measure:
        host("again")
    if name is None:
        known = [host("never"), *catalog(own).values()]
        click.echo(_json([asdict(summary(target)) for target in known]) if as_json else _list(known))
        return
    target = load_target(name, own)
    click.echo(_json(target.to_dict()) if as_json else _detail(target))


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _list(known: Sequence[Target]) -> str:
    head = tuple(field.name for field in fields(Summary))
    table = [head, *(astuple(summary(target)) for target in known)]
    notes = [f"{UNVERIFIED} not verified in a vendor's document. `chipwise targets NAME` shows sources and modes."]
    if known[0].read_bps is None:
        notes.append("The host has not been measured yet: `chipwise targets host` does it in about 3 seconds.")
    return "\n".join([*_aligned(table), "", *notes])


def _detail(target: Target) -> str:
    lines = [target.name]
    for section, facts in groupby(rows(target), key=lambda row: row.section):
        listed = list(facts)
        width = max(len(row.name) for row in listed)
        lines += ["", section, *(line for row in listed for line in _fact(row, width))]
    return "\n".join(lines)


def _fact(row: Row, width: int) -> list[str]:
    lines = [f"  {row.name:<{width}}  {row.value}"]
    indent = " " * (width + 4)
    if row.source:
        lines.append(f"{indent}[{row.source}]")
    if row.note:
        lines.append(f"{indent}{row.note}")
    return lines


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]
