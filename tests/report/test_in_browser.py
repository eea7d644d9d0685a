"""report.html in a real browser: it reads well wherever it is opened, and asks for nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chipwise.report import Verdict
from chipwise.report.html import render_html
from chipwise.report.html_side_by_side import render_side_by_side
from chipwise.report.report import Report
from tests.report import browser as browsers
from tests.report.samples import full_report, side_by_side
from tests.report.test_html_attribution import attribution

pytestmark = [pytest.mark.slow, pytest.mark.browser]

KEPT = os.environ.get("CHIPWISE_SCREENSHOTS")
"""Where screenshots are kept for people; nowhere if it is not set."""

SIZES = {"desktop": (1280, 800), "tablet": (820, 1180), "phone": (390, 844)}


def reports() -> dict[str, Report]:
    full = full_report()
    unsure = Verdict("noise_robustness_drop", 0.0, 0.03, "max", passed=True, sure=False, more_cases=68)
    assert full.quality is not None
    long = "a-name-without-any-space-that-is-longer-than-a-phone-is-wide-" * 3
    case = replace(full.quality.cases[0], id=long, prompt=long * 4, candidate_answer=long, reference_answer="开灯" * 90)
    return {
        "fail": full,
        "pass": full_report(passed=True),
        "unsure": replace(full, verdicts=(*full_report(passed=True).verdicts, unsure)),
        "emulated": replace(full_report(passed=True), emulates="rk3588"),
        "attributed": replace(full, attribution=attribution()),
        "alone": Report("nothing measured", "host", "m", "fp32"),
        "long": replace(full, title=long, model=long, quality=replace(full.quality, cases=(case,) * 3)),
    }


@pytest.fixture(scope="module")
def opened(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    with browsers.browser(chromium, tmp_path_factory.mktemp("home")) as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    made = {}
    for name, report in reports().items():
        made[name] = folder / f"{name}.html"
        made[name].write_text(render_html(report), "utf-8")
    made["compare"] = folder / "compare.html"
    made["compare"].write_text(render_side_by_side(side_by_side()), "utf-8")
    return made


def keep(shown: object, name: str) -> None:
    if KEPT:
        Path(KEPT).mkdir(parents=True, exist_ok=True)
        shown.page.screenshot(path=Path(KEPT) / f"{name}.png", full_page=True)  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [*sorted(reports()), "compare"])
def test_it_fits_and_nothing_lies_on_something_else(
    opened: object, pages: dict[str, Path], name: str, size: str
) -> None:
    width, height = SIZES[size]
    shown = browsers.show(opened, pages[name], width=width, height=height)
    keep(shown, f"{name}-{size}")
    assert shown.requests == [pages[name].as_uri()]
    assert shown.complaints == []
    assert shown.ask("() => document.documentElement.scrollWidth") <= width
    assert shown.overlaps() == []
    assert shown.clipped() == []
    assert shown.texts_on_each_other() == []
    shown.page.close()


def test_the_checks_see_what_they_are_for(opened: object, tmp_path: Path) -> None:
    # A page with each fault: a text too wide, boxes on each other, faint ink, texts of a plot on each other.
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<body style='background:#fff;color:#ccc'><main><section style='position:relative'><p style='width:50px;"
        "white-space:nowrap'>much too long for its box</p><p style='position:absolute;top:0;left:0;margin:0'>over</p>"
        "<svg width=200 height=50><text x=10 y=20>one text</text><text x=12 y=22>another</text></svg></section></main>"
        "<img src='missing.png'><script>console.error('a complaint')</script></body>",
        "utf-8",
    )
    shown = browsers.show(opened, bad)
    assert shown.overlaps()
    assert shown.clipped()
    assert shown.texts_on_each_other()
    assert shown.faint(4.5)
    assert len(shown.requests) == 2
    assert shown.complaints
    shown.page.close()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["fail", "pass", "unsure", "alone", "compare"])
def test_every_text_stands_out_from_its_ground(opened: object, pages: dict[str, Path], name: str, dark: bool) -> None:
    shown = browsers.show(opened, pages[name], dark=dark)
    keep(shown, f"{name}-{'dark' if dark else 'light'}")
    assert shown.faint(4.5) == []
    shown.page.close()


def test_dark_and_light_differ_and_show_the_same(opened: object, pages: dict[str, Path]) -> None:
    light, dark = (browsers.show(opened, pages["fail"], dark=dark) for dark in (False, True))
    assert light.background() != dark.background()
    assert light.page.screenshot() != dark.page.screenshot()
    wanted = ["dimensions", "next", "drift", "weigh", "cases", "layers", "matrix", "gates", "size", "speed"]
    assert light.sections()[: len(wanted)] == wanted
    assert light.sections() == dark.sections()
    light.page.close()
    dark.page.close()


def test_the_first_screen_says_ship_it_or_not_how_sure_and_what_broke(opened: object, pages: dict[str, Path]) -> None:
    shown = browsers.show(opened, pages["fail"])
    visible = shown.ask(
        "() => [...document.querySelectorAll('strong, .answer b, .dimension h3')]"
        ".filter(e => e.getBoundingClientRect().bottom <= innerHeight).map(e => e.textContent.trim())"
    )
    assert visible[:4] == ["Do not ship it", "95 %", "19 answers", "5.7× smaller"]
    assert len(visible) == 8, "the four dimensions begin on the first screen"
    phone = browsers.show(opened, pages["fail"], width=390, height=844)
    assert phone.ask("() => document.querySelector('.answers').getBoundingClientRect().bottom <= innerHeight")
    shown.page.close()
    phone.page.close()


def test_on_paper(opened: object, pages: dict[str, Path], tmp_path: Path) -> None:
    shown = browsers.show(opened, pages["fail"], dark=True)
    shown.page.emulate_media(media="print", color_scheme="dark")
    # Ink on white, whatever the screen is like.
    assert shown.background() == "rgb(255, 255, 255)"
    assert shown.faint(4.5) == []
    pdf = shown.page.pdf(format="A4", print_background=True)
    assert pdf.startswith(b"%PDF")
    pages_printed = pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") + pdf.count(b"/Type/Page/")
    assert 3 <= pages_printed <= 12
    if KEPT:
        (Path(KEPT) / "fail.pdf").write_bytes(pdf)
    shown.page.close()
