"""`chipwise board`: the present state of a board, each value with its source."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

import click

from chipwise.target.units import human
from chipwise.telemetry import HardwareState, Reading, open_meters


@click.command()
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    default=Path("/"),
    help="Folder that stands for the machine's root: a recording, or a virtual board's tree.  [default: /]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def board(root: Path, as_json: bool) -> None:
    """Show a board's temperature, power, clocks, load and memory, each with its source or why it is unknown."""
    with open_meters(root) as meters:
        state = meters.read(time.monotonic())
    click.echo(_json(root, state) if as_json else _text(root, state))


def _json(root: Path, state: HardwareState) -> str:
    found = {
        "root": str(root),
        "board": [asdict(reading) for reading in state.summary],
        "details": [asdict(reading) for reading in state.details],
    }
    return json.dumps(found, indent=2, ensure_ascii=False)


def _text(root: Path, state: HardwareState) -> str:
    known = sum(reading.value is not None for reading in state.summary)
    lines = [f"{root}: {known} of {len(state.summary)} values known", "", *_table(state.summary)]
    if state.details:
        lines += ["", "details", *_table(state.details)]
    return "\n".join(lines)


def _table(readings: tuple[Reading, ...]) -> list[str]:
    names = max(len(reading.name) for reading in readings)
    values = max(len(_value(reading)) for reading in readings)
    return [
        f"  {reading.name:<{names}}  {_value(reading):<{values}}  {_source(reading)}".rstrip() for reading in readings
    ]


def _value(reading: Reading) -> str:
    if reading.value is None:
        return "unknown"
    if reading.unit == "C":
        return f"{reading.value:.1f} °C"
    if reading.unit == "1":
        return f"{reading.value:.3g}"
    return human(reading.value, reading.unit)


def _source(reading: Reading) -> str:
    parts = (reading.source, reading.unknown, reading.note)
    return ": ".join(part for part in parts[:2] if part) + (f" ({parts[2]})" if parts[2] else "")
