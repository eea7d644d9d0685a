"""compare.html: two bundles beside each other as one page that needs no other."""

from __future__ import annotations

from chipwise.report.html import WORST_CASES, environment, shown_case
from chipwise.report.html_dimensions import dimensions_of
from chipwise.report.side_by_side import SideBySide


def render_side_by_side(found: SideBySide) -> str:
    """The comparison as one HTML page: style sheet inline, no script, nothing fetched."""
    quality = found.quality
    return _TEMPLATE.render(
        found=found,
        quality=quality,
        dimensions=dimensions_of(quality, ()) if quality else [],
        cases=[shown_case(case) for case in quality.worst(WORST_CASES)] if quality else [],
        sides=("A", "B"),
    )


_TEMPLATE = environment().get_template("compare.html.j2")
