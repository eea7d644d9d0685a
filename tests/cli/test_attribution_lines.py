from __future__ import annotations

from chipwise.cli.attribution_lines import attribution_lines
from chipwise.report.attribution import Attribution
from tests.report.test_html_attribution import attribution


def test_the_culprit_a_table_and_lost_values() -> None:
    first, head, *rows, last = attribution_lines(attribution())
    assert first == "damage from layer 1 KV cache: it rounds <much>"
    assert head.split() == ["layer", "damage", "alone", "without", "own", "error", "inherited"]
    assert rows[0].split() == ["layer", "1", "attention", "0.490", "0.500", "0.0200", "0.300", "0.100"]
    assert len(rows) == 5
    assert last == "  layers.0.output (decode): 3 not finite, 17 saturated of 1024 values"


def test_no_damage_in_a_line() -> None:
    assert list(attribution_lines(Attribution())) == ["damage: none, the candidate computes what the reference does"]
