"""An attribution as lines of a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from chipwise.report.attribution import Attribution
from chipwise.report.html_attribution import layer_words
from chipwise.report.html_format import number

_SHOWN = 8
_HEAD = ("layer", "damage", "alone", "without", "own error", "inherited")


def attribution_lines(found: Attribution) -> Iterator[str]:
    """What is to blame, then a table of the layers that do most, then the tensors that lose most values."""
    if not found.faults:
        yield "damage: none, the candidate computes what the reference does"
    for place, fault in enumerate(found.faults[:_SHOWN]):
        yield f"{'damage from' if not place else 'then from'} {layer_words(fault.name)}: {fault.why}"
    shown = found.layers[:_SHOWN]
    if shown and found.faults:
        rows = [_HEAD, *(
            (
                layer_words(one.layer), number(one.damage_nats), number(one.kl_in_nats), number(one.kl_out_nats),
                number(one.own_error), number(one.inherited_error),
            )
            for one in shown
        )]  # fmt: skip
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
        for row in rows:
            yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    for tensor in found.tensors[:3]:
        lost = f"{tensor.nonfinite} not finite, {tensor.saturated} saturated"
        yield f"  {tensor.name} ({tensor.graph}): {lost} of {tensor.values} values"
