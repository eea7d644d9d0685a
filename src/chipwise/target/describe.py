"""A target in words: the rows that the command line prints and the documentation shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from chipwise.target.compute_unit import ComputeUnit
from chipwise.target.memory_region import MemoryRegion
from chipwise.target.provenance import Provenance
from chipwise.target.quantity import Fact, Quantity
from chipwise.target.target import Target
from chipwise.target.units import human

UNKNOWN = "unknown"
# Marks a figure that no vendor's document confirms.
UNVERIFIED = "?"


@dataclass(frozen=True)
class Row:
    """One fact.

    Attributes:
        section: What it is about, e.g. ``compute: npu``.
        name: What is told, e.g. ``clock``.
        value: The fact, with its unit.
        source: Where it comes from.
        note: What limits it.
    """

    section: str
    name: str
    value: str
    source: str = ""
    note: str = ""


@dataclass(frozen=True)
class Summary:
    """A target in one line; a ``?`` marks what is not verified."""

    name: str
    vendor: str
    compute: str
    bandwidth: str
    schemes: str
    engine: str


def summary(target: Target) -> Summary:
    """The line of the target in a list of all."""
    schemes = dict.fromkeys(s.name + ("" if s.provenance.verified else UNVERIFIED) for s in target.constraints.schemes)
    return Summary(
        name=target.name,
        vendor=target.chip.vendor,
        compute=_compute(target),
        bandwidth=_marked(target.read_bps) if target.read_bps else UNKNOWN,
        schemes=" ".join(schemes) or UNKNOWN,
        engine=" ".join(target.chip.engines),
    )


def rows(target: Target) -> list[Row]:
    """All facts of a target, in reading order."""
    found = [
        Row("target", name, value)
        for name, value in (
            ("vendor", target.chip.vendor),
            ("engines", ", ".join(target.chip.engines)),
            ("mode", target.mode.name if target.mode else ""),
            ("other modes", ", ".join(m.name for m in target.chip.modes if m != target.mode)),
            *(("note", note) for note in target.chip.notes),
        )
        if value
    ]
    found += _facts("target", {"total_sparse_ops": target.chip.total_sparse_ops})
    if target.board is not None:
        found += _noun("board", target.board)
    for unit in target.units:
        found += _noun(f"compute: {unit.name}", unit, _missing_of_unit(unit))
    for region in target.memory:
        found += _noun(f"memory: {region.name}", region, _missing_of_main(region) if region.role == "main" else ())
    found += _noun("limits", target.constraints)
    found += _groups(target)
    for name, constraints in target.chip.unit_constraints.items():
        found += _noun(f"limits of {name}", constraints)
    found += _facts("devices", target.chip.devices)
    found += [Row("claims", c.verdict, f'"{c.claim}": {c.truth}', c.provenance.line()) for c in target.chip.claims]
    return found


def _groups(target: Target) -> Iterator[Row]:
    for s in target.constraints.schemes:
        sizes = f" of {', '.join(map(str, s.group_sizes))}" if s.group_sizes else ""
        weights = f"weights per {', '.join(s.weights)}{sizes}" if s.weights else ""
        algorithms = f"algorithms {', '.join(s.algorithms)}" if s.algorithms else ""
        value = "; ".join(part for part in (s.engine, weights, algorithms) if part)
        yield Row("schemes", s.name, value, s.provenance.line(), s.note)
    for a in target.constraints.alignments:
        subject = a.subject.replace("_", " ") + (f", {a.dtype}" if a.dtype else "")
        yield Row(
            "alignment", subject, f"multiple of {a.multiple.text()}", a.multiple.provenance.line(), a.multiple.note
        )
    for p in target.constraints.placement:
        ops = "all others" if p.ops == ("*",) else " ".join(p.ops)
        yield Row("operators", p.place, ops, p.provenance.line(), p.note)


def _noun(section: str, noun: Any, missing: Sequence[str] = ()) -> Iterator[Row]:
    """The quantities and facts among a noun's fields."""
    held = {field.name: getattr(noun, field.name) for field in fields(noun)}
    yield from _facts(section, held)
    if held.get("features"):
        yield Row(section, "features", " ".join(held["features"]))
    if missing:
        yield Row(section, UNKNOWN, ", ".join(missing))
    if held.get("note"):
        yield Row(section, "note", held["note"])


def _missing_of_unit(unit: ComputeUnit) -> list[str]:
    unknown = {"count": unit.count is None, "clock": unit.clock_hz is None}
    unknown["op/s"] = not (unit.peak_ops or unit.macs_per_cycle or unit.sparse_peak_ops)
    return [name for name, is_unknown in unknown.items() if is_unknown]


def _missing_of_main(region: MemoryRegion) -> list[str]:
    unknown = {"size": region.size_bytes is None and region.max_bytes is None, "read": region.read_bps is None}
    return [name for name, is_unknown in unknown.items() if is_unknown]


def _facts(section: str, held: Mapping[str, Any]) -> Iterator[Row]:
    for name, value in held.items():
        if isinstance(value, (Quantity, Fact)):
            yield Row(section, _label(name), value.text(), value.provenance.line(), value.note)
        elif isinstance(value, Mapping):
            yield from _facts(section, {f"{name} {key}": inner for key, inner in value.items()})


def _label(name: str) -> str:
    if name == "size_bytes":
        return "size"
    words = name.replace("peak_ops", "op/s").replace("_sparse_ops", " sparse op/s").replace("_bytes", " size")
    for suffix in ("_bps", "_tokens", "_hz", "_s", "_w"):
        words = words.removesuffix(suffix)
    return words.replace("_", " ")


def _compute(target: Target) -> str:
    unit = target.accelerator
    if unit is None:
        return UNKNOWN
    count = f"{unit.count.text()} x " if unit.count and unit.count.value > 1 else ""
    ops = target.ops_per_s("int8")
    if ops is not None:
        stated = unit.peak_ops.get("int8")
        sources = [stated] if stated else [unit.count, unit.clock_hz, unit.macs_per_cycle["int8"]]
        verified = all(s is not None and s.provenance.verified for s in sources)
        return f"{count}{unit.name}, {human(ops, 'op/s')} int8{'' if verified else UNVERIFIED}"
    sparse = target.chip.total_sparse_ops.get("int8")
    if sparse is not None:
        accelerators = " + ".join(u.name for u in target.units if u.kind != "cpu")
        return f"{accelerators}, {_marked(sparse)} int8 sparse"
    return f"{count}{unit.name}, op/s {UNKNOWN}"


def _marked(quantity: Quantity) -> str:
    return quantity.text() + _mark(quantity.provenance)


def _mark(provenance: Provenance) -> str:
    return "" if provenance.verified else UNVERIFIED
