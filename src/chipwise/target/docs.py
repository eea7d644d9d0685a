"""The documentation page of the catalogue, generated from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, fields

from chipwise.target.alignment import Alignment
from chipwise.target.board import Board
from chipwise.target.catalog import catalog
from chipwise.target.claim import Claim
from chipwise.target.compute_unit import ComputeUnit
from chipwise.target.constraints import Constraints
from chipwise.target.describe import UNVERIFIED, Summary, rows, summary
from chipwise.target.memory_region import MemoryRegion
from chipwise.target.mode import Mode
from chipwise.target.placement import Placement
from chipwise.target.scheme_support import SchemeSupport
from chipwise.target.target import Target
from chipwise.target.units import UNITS

_INTRO = f"""# Targets

A target is a chip on a board in a mode. `chipwise targets` lists them, `chipwise targets rk3576` tells all about one,
`chipwise targets host` measures the machine it runs on. A mode other than the first is chosen as `rk3588@ddr-4224`.

Every figure carries its source: `vendor` (a document of the maker), `measured`, `published` (by a third party) or
`assumed` (not verified). A `{UNVERIFIED}` marks figures that are only assumed. What is unknown is left out, never 0.
"""

_OWN = """## Chips and boards of your own

Put TOML files into a folder and name it in `CHIPWISE_TARGETS` (several folders as in `PATH`); the file is called as the
target is. A board takes a chip of the catalogue:

```toml
chip = "rk3588"
mode = "ddr-4224"

[sources]
sheet = { kind = "vendor", source = "data sheet of the board, revision 3", date = "2026-10" }

[board]
name = "gateway-8g"
memory_bytes = { value = "8 GiB", source = "sheet" }
```

A chip tells what it is and what it accepts:

```toml
name = "mychip"
vendor = "Example"
engines = ["onnxruntime"]
base = ["onnxruntime"]   # shared constraints: ethos-u, onnxruntime, rknn, rknn-operators, rknn-as-rk3588, tensorrt

[sources]
sheet = { kind = "vendor", source = "data sheet 1.2", date = "2026-10" }

[[units]]
name = "cortex-a76"
kind = "cpu"
count = { value = 4, source = "sheet" }
clock_hz = { value = "2.4 GHz", source = "sheet" }

[[memory]]
name = "dram"
role = "main"
size_bytes = { value = "4 GiB", source = "sheet" }
read_bps = { value = "12.8 GB/s", source = "sheet", note = "32 bit x 3200 MT/s" }

[constraints]
opset_max = { value = 19, source = "sheet" }
```

Every number and statement is a table of `value`, `source` (a name under `[sources]`) and, if needed, `note`. A number
with a unit is text, `"43.8 GB/s"`; a count is a plain number. An unknown key, a missing source or a wrong unit is an
error that names the place.
"""


def render() -> str:
    """The page as Markdown."""
    targets = catalog()
    parts = [
        _INTRO,
        "## All targets\n",
        _table([field.name for field in fields(Summary)], [astuple(summary(t)) for t in targets.values()]),
        "## Claims that the documents contradict or confirm\n",
        _table(["target", "claim", "verdict", "what holds", "source"], _claims(targets.values())),
        _OWN,
        f"Units: {', '.join(f'`{unit}`' for unit in UNITS if unit != '1')}.\n",
        *_fields(),
        "## Each target\n",
        *(_section(target) for target in targets.values()),
    ]
    return "\n".join(parts)


def _claims(targets: Iterable[Target]) -> list[tuple[str, ...]]:
    return [
        (target.name, claim.claim, claim.verdict, claim.truth, claim.provenance.line())
        for target in targets
        for claim in target.chip.claims
    ]


def _fields() -> Iterator[str]:
    """The fields of the nouns a file holds, from their docstrings."""
    for title, noun in (
        ("units", ComputeUnit),
        ("memory", MemoryRegion),
        ("modes", Mode),
        ("constraints", Constraints),
        ("constraints.schemes", SchemeSupport),
        ("constraints.alignments", Alignment),
        ("constraints.placement", Placement),
        ("claims", Claim),
        ("board", Board),
    ):
        _, _, attributes = (noun.__doc__ or "").partition("Attributes:")
        entries: list[str] = []
        for line in attributes.splitlines():
            text = line.strip()
            name, colon, rest = text.partition(": ")
            if colon and line.startswith(" " * 8) and not line.startswith(" " * 9):
                entries.append(f"- `{name}`: {rest}")
            elif text and entries:
                entries[-1] += f" {text}"
        yield f"Fields of `{title}`:\n"
        yield "\n".join(entries).replace("``", "`") + "\n"


def _section(target: Target) -> str:
    table = [(r.section, r.name, r.value, r.source, r.note) for r in rows(target)]
    return f"### {target.name}\n\n" + _table(["", "", "value", "source", "note"], table)


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(head), line(["---"] * len(head)), *map(line, lines)]) + "\n"
