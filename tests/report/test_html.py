from __future__ import annotations

import math
import re
import time
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from chipwise.report import Verdict
from chipwise.report.html import PROMPT_CHARACTERS, WORST_CASES, headline, render_html
from chipwise.report.quality import CaseResult, Fidelity, Quality
from chipwise.report.report import LayerCosine, NotRun, Report
from tests.report.samples import full_report

EMPTY = Report("t", "host", "m", "fp32")
EVIL = '<script>alert("x")</script>&\'<img src=x onerror=alert(1)>'
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Checked(HTMLParser):
    """Notes every tag with its attributes, and that each is closed."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.sections: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "section":
            self.sections.append(str(dict(attrs)["id"]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(page: str) -> Checked:
    checked = Checked()
    checked.feed(page)
    checked.close()
    assert checked.open == []
    return checked


def text_of(page: str) -> str:
    return " ".join(re.sub("<[^>]+>", " ", page.split("</style>")[1]).split())


@pytest.mark.parametrize("report", [full_report(), full_report(passed=True), EMPTY])
def test_the_page_needs_nothing_but_itself(report: Report) -> None:
    page = render_html(report)
    assert not re.search(r"https?:|//[a-z]|@import|url\(", page)
    for tag, attributes in parsed(page).tags:
        assert tag not in {"script", "link", "img", "iframe", "object", "embed"}
        assert not {"src", "href", "srcset"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
    assert len(page) < 400_000


def test_every_section_is_there_in_its_order() -> None:
    assert parsed(render_html(full_report())).sections == [
        "dimensions",
        "next",
        "drift",
        "weigh",
        "cases",
        "layers",
        "matrix",
        "gates",
        "size",
        "speed",
        "findings",
        "rewrites",
        "steps",
        "not-run",
        "environment",
    ]


def test_what_was_not_measured_has_no_section() -> None:
    assert parsed(render_html(EMPTY)).sections == ["environment"]


def test_dark_light_and_print() -> None:
    page = render_html(EMPTY)
    for rule in ("prefers-color-scheme: dark", "@media print", "max-width: 640px", 'name="viewport"'):
        assert rule in page


def evil_report() -> Report:
    case = CaseResult(EVIL, EVIL, EVIL, EVIL, "x" + EVIL, (), (EVIL,), 0.1, 0.9, labels={EVIL: EVIL})
    report = full_report()
    finding, step, rewrite, scheme, measured, layer = (
        report.findings[0],
        report.steps[0],
        report.rewrites[0],
        report.schemes[0],
        report.measurements[0],
        report.layers[0],
    )
    assert report.quality is not None
    return replace(
        report,
        title=EVIL,
        target=EVIL,
        model=EVIL,
        recipe=EVIL,
        created=EVIL,
        verdicts=(Verdict.judge(EVIL, 1, 0, "max"),),
        quality=replace(report.quality, cases=(case,), fidelity=(Fidelity(EVIL, 1, 1.0, 0.0, 1, 0),), not_run=(EVIL,)),
        layers=(replace(layer, name=EVIL),),
        findings=(replace(finding, rule=EVIL, where=EVIL, measured=EVIL, limit=EVIL, message=EVIL, remedy=EVIL),),
        rewrites=(replace(rewrite, name=EVIL, note=EVIL),),
        schemes=(replace(scheme, scheme=EVIL),),
        measurements=(replace(measured, name=EVIL, unit=EVIL, hardware=EVIL),),
        steps=(replace(step, name=EVIL, note=EVIL),),
        not_run=(NotRun(EVIL, EVIL),),
        hardware={EVIL: EVIL},
        versions={EVIL: EVIL},
        provenance={EVIL: EVIL},
    )


def test_every_text_is_escaped() -> None:
    page = render_html(evil_report())
    assert {"script", "img"} & {tag for tag, _ in parsed(page).tags} == set()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") > 30


def test_chinese_stays_as_it_is() -> None:
    page = render_html(full_report())
    assert "总结日志里的故障" in page
    assert "<ins>20</ins>报E123电机过热" in page


@pytest.mark.parametrize(
    ("verdicts", "said", "shade"),
    [
        ((), "Nothing was judged", "verdict none"),
        ((Verdict.judge("top1_agreement", 0.95, 0.9, "min"),), "The only gate holds.", "verdict pass"),
        (
            (Verdict.judge("top1_agreement", 0.85, 0.9, "min"), Verdict.judge("kl_mean_nats", 0.01, 0.1, "max")),
            "1 of 2 gates does not hold: Same next token 85 % (needs ≥ 90 %).",
            "verdict fail",
        ),
        (
            (Verdict.judge("kl_mean_nats", math.nan, 0.1, "max"),),
            "1 of 1 gate does not hold: KL divergence not a number (needs ≤ 0.1 nats).",
            "verdict fail",
        ),
        (
            (Verdict.judge("cases_nonfinite", 3, 0, "max"),),
            "1 of 1 gate does not hold: Cases with NaN or infinity 3 (must be 0).",
            "verdict fail",
        ),
    ],
)
def test_the_verdict_comes_first(verdicts: tuple[Verdict, ...], said: str, shade: str) -> None:
    report = replace(EMPTY, verdicts=verdicts)
    assert headline(report).startswith(said)
    page = render_html(report)
    assert f'class="{shade}"' in page
    assert headline(report) in text_of(page)


def test_gates_have_the_names_that_the_command_line_takes() -> None:
    verdicts = (Verdict.judge("kl_mean_nats", 0.01, 0.1, "max"), Verdict.judge("cases_run", 0, 1, "min"))
    page = render_html(replace(EMPTY, verdicts=verdicts))
    assert "KL divergence <code>kl_mean_nats</code>" in page
    assert "Cases run" in page
    assert "<code>cases_run</code>" not in page


def test_a_long_prompt_is_cut_and_says_so() -> None:
    prompt = "x" * (PROMPT_CHARACTERS + 1234)
    case = CaseResult("a", prompt, None, "yes", "no", kl_mean_nats=0.1, top1_agreement=0.5)
    page = render_html(replace(EMPTY, quality=Quality((case,))))
    assert "… (1,234 more characters)" in page
    assert "x" * (PROMPT_CHARACTERS + 1) not in page


def test_only_the_worst_cases_are_shown() -> None:
    cases = tuple(
        CaseResult(f"case-{i}", "q", None, "yes", "no", kl_mean_nats=float(i), top1_agreement=0.5) for i in range(30)
    )
    page = render_html(replace(EMPTY, quality=Quality(cases)))
    assert page.count('<article class="case">') == WORST_CASES
    assert "case-29" in page
    assert "case-19" not in page


def test_a_candidate_alone() -> None:
    case = CaseResult("a", "q", "yes", None, "no", None, ("yes",))
    page = render_html(replace(EMPTY, quality=Quality((case,), (Fidelity("all", 1, None, 0.0),))))
    assert "as it was" not in text_of(page).split("Worst cases")[1]
    assert "Reference" not in text_of(page)
    assert "lacks yes" in page
    assert "<ins>" not in page.split('<article class="case">')[1]


def test_nan_everywhere_is_shown() -> None:
    report = full_report()
    assert report.quality is not None
    assert report.quality.answer is not None
    broken = replace(report.quality.answer, kl_mean_nats=math.nan, kl_p95_nats=math.nan, perplexity_candidate=math.nan)
    page = render_html(
        replace(
            report,
            quality=replace(report.quality, answer=broken),
            layers=(replace(report.layers[0], min=math.nan, mean=math.nan, whole=math.nan), *report.layers[1:]),
        )
    )
    assert "not a number" in page
    assert 'cy="nan"' not in page


def test_it_is_quick() -> None:
    report = full_report()
    render_html(report)
    start = time.perf_counter()
    render_html(report)
    assert time.perf_counter() - start < 2


def test_values_that_belong_to_no_layer_share_one_plot() -> None:
    names = [f"val_{i}" for i in range(40)] + ["logits", "layers.0.output", "layers.1.output", "layers.0.mlp_out"]
    page = render_html(replace(EMPTY, layers=tuple(LayerCosine(name, 0.9, 0.8, 0.95, 1) for name in names)))
    assert page.count("<svg") == 3
    assert "Outputs, and products inside" in page
