"""A report with something in every section, from a fixed seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from chipwise.report import Finding, Measurement, Verdict
from chipwise.report.quality import (
    AnswerPosition,
    CaseResult,
    DimensionScore,
    DriftSummary,
    Fidelity,
    KlHistogram,
    Quality,
    SelfCheck,
)
from chipwise.report.report import LayerCosine, NotRun, Report, RewriteStep, SchemeSize, Step
from chipwise.report.side_by_side import Side, SideBySide, Statement
from chipwise.report.tried import TriedRecipe

EDGES = tuple(float(edge) for edge in np.logspace(-6, 1, 29))


def summary(positions: int, kl: float, nonfinite: int = 0) -> DriftSummary:
    return DriftSummary(positions, kl, kl / 8, kl * 4, kl * 40, 0.94, 1.31, 1.36, 0, nonfinite)


def histogram(rng: np.random.Generator) -> KlHistogram:
    def counts(centre: float, n: int) -> tuple[int, ...]:
        found, _ = np.histogram(np.clip(rng.lognormal(np.log(centre), 1.9, n), EDGES[0], EDGES[-1]), bins=EDGES)
        return tuple(int(count) for count in found)

    return KlHistogram(EDGES, counts(0.03, 6120), counts(0.004, 2480))


def cases() -> tuple[CaseResult, ...]:
    return (
        CaseResult(
            "home-en-rule0-1f3a9c2b10",
            "system: temperature: 31\nuser: If the bedroom temperature is above 26, turn on the air conditioner.",
            '{"tool":"turn_on","room":"bedroom","device":"air_conditioner"}',
            '{"tool":"turn_on","room":"bedroom","device":"air_conditioner"}',
            '{"tool":"none","reading":31,"limit":26}',
            (),
            ("turn_on", "bedroom", "air_conditioner"),
            0.412,
            0.71,
            labels={"lang": "en", "domain": "home"},
        ),
        CaseResult(
            "factory-zh-summary1-77ab01cd34",
            "总结日志里的故障。\n07:12 泵-2041 正常\n07:30 light-0042 E123 电机过热\n07:41 fan-7 正常",
            "light-0042在07:30报E123电机过热。",
            "light-0042在07:30报E123电机过热。",
            "light-0042在07:20报E123电机过热。",
            (),
            ("07:30",),
            0.183,
            0.93,
            labels={"lang": "zh", "domain": "factory"},
        ),
        CaseResult(
            "vehicle-en-navigate2-0c0c9d1e88",
            "Navigate to the nearest station and avoid the motorway. " * 30,
            None,
            "Navigating to Central Station, avoiding the motorway.",
            "Navigating to Central Station via the motorway.",
            None,
            None,
            0.094,
            0.88,
            labels={"lang": "en", "domain": "vehicle"},
        ),
    )


def matrix(*, passed: bool) -> tuple[DimensionScore, ...]:
    def row(name: str, label: str, n: int, before: int, broke: int, fixed: int) -> DimensionScore:
        after = before - broke + fixed
        loss = ((broke - fixed) / n - 0.05, (broke - fixed) / n + 0.06)
        around = ((before - 6) / n, min(1.0, (before + 3) / n)), ((after - 6) / n, min(1.0, (after + 3) / n))
        return DimensionScore(name, label, n, before, around[0], after, around[1], broke, fixed, loss, 0.002)

    return (
        row("keyword", "all", 100, 97, 1 if passed else 13, 1),
        row("keyword", "lang=en", 50, 49, 0 if passed else 3, 0),
        row("keyword", "lang=zh", 50, 48, 1 if passed else 10, 1),
        row("logic", "all", 80, 76, 1, 1),
        row("long_range", "all", 40, 31, 2, 1),
        row("noise", "all", 100, 90, 3, 2),
    )


def tried(*, passed: bool) -> tuple[TriedRecipe, ...]:
    return (
        TriedRecipe("fp32", 538_060_288, 24.1, 301.0, right=0.93, reference=True),
        TriedRecipe("w4a16", 95_004_032, 61.3, 410.0, 0.0312, 0.04, 0.89, "pass" if passed else "fail", kept=True),
        TriedRecipe("w8a16", 161_004_032, 44.0, 398.0, 0.0008, 0.0, 0.93, "pass"),
    )


def full_report(*, passed: bool = False) -> Report:
    rng = np.random.default_rng(7)
    layers = []
    for i in range(30):
        for kind, base in (("attn_out", 4e-3), ("mlp_out", 8e-3), ("output", 3e-3)):
            lost = base * (1 + i / 12) * float(rng.lognormal(0, 0.3))
            layers.append(LayerCosine(f"layers.{i}.{kind}", 1 - lost, 1 - min(1.2, 14 * lost), 1 - lost / 60, 17))
    verdicts = (
        Verdict.judge("kl_mean_nats", 0.0312, 0.1, "max"),
        Verdict.judge("top1_agreement", 0.9413, 0.9, "min"),
        Verdict.judge("perplexity_ratio", 1.038, 1.1, "max"),
        Verdict.judge("keyword_fidelity_drop", 0.01 if passed else 0.12, 0.03, "max"),
        Verdict.judge("self_check_reference_nats", 3.1e-9, 1e-3, "max"),
        Verdict.judge("self_check_candidate_nats", 0.0004, 0.01, "max"),
        Verdict.judge("cases_nonfinite", 0, 0, "max"),
        Verdict.judge("cases_not_run", 0, 0, "max"),
    )
    positions = tuple(
        AnswerPosition(i, 100 - i, 0.012 + 0.0016 * i * float(rng.random()), 0.985 - 0.0024 * i) for i in range(30)
    )
    quality = Quality(
        cases(),
        (
            Fidelity("all", 100, 0.97, 0.85, 13, 1),
            Fidelity("lang=en", 50, 0.98, 0.92, 3, 0),
            Fidelity("lang=zh", 50, 0.96, 0.78, 10, 1),
        ),
        summary(2480, 0.0312),
        summary(6120, 0.0621),
        histogram(rng),
        positions,
        (SelfCheck("reference", 136, 3.1e-9, 4e-8, 1.0), SelfCheck("candidate", 136, 0.0004, 0.006, 1.0)),
        ("vehicle-en-long0-2b2b2b2b2b",),
    )
    quality = replace(quality, matrix=matrix(passed=passed))
    return Report(
        title="SmolLM2-135M-Instruct on rk3588, w4a16",
        target="rk3588",
        model="SmolLM2-135M-Instruct",
        recipe="w4a16-g32",
        verdicts=verdicts,
        quality=quality,
        layers=tuple(layers),
        findings=(
            Finding("opset", "error", "graph", "23", "at most 19", "The toolkit takes no opset 23.", "Lower it."),
            Finding("alignment", "warning", "lm_head", "49153", "multiple of 32", "The width is odd.", "Pad it."),
            Finding("memory", "info", "model", "182 MiB", "4 GiB", "The model fits.", ""),
        ),
        rewrites=(
            RewriteStep("mask_constant", 30, 2.4e-6, "-1e9 becomes -30"),
            RewriteStep("constant_folding", 0),
        ),
        schemes=(
            SchemeSize("uint4, group 32, asymmetric", 210, 424_673_280, 66_355_200),
            SchemeSize("int8, per channel", 1, 113_246_208, 28_508_160),
            SchemeSize("float32", 61, 140_544, 140_544),
        ),
        tried=tried(passed=passed),
        measurements=(
            Measurement("decode", 61.3, "tok/s", 5, 1.2, "measured", "2 cores, x86-64"),
            Measurement("prefill", 410.0, "tok/s", 5, 12.0, "measured", "2 cores, x86-64"),
        ),
        steps=(
            Step("import", 0.8, 210 << 20, "GGUF, 272 tensors"),
            Step("quantize", 14.2, 640 << 20, "w4a16, group 32"),
            Step("verify", 41.7, 1300 << 20, "100 cases"),
        ),
        not_run=(NotRun("int8 arithmetic of the NPU", "no board was attached; it was emulated"),),
        hardware={"cpu": "2 cores, x86-64, AVX-512", "memory": "23 GiB"},
        versions={"python": "3.11.7", "onnxruntime": "1.32.0"},
        provenance={"model sha256": "0" * 64, "licence": "apache-2.0"},
        created="2026-01-01T00:00:00+00:00",
    )


def side_by_side() -> SideBySide:
    report = full_report()
    speeds = report.measurements
    said = (
        Statement("worse", "B is worse on keyword fidelity by 12 points (6 to 20, p = 0.0055), of 100 cases"),
        Statement("even", "no difference shown in noise robustness: -4 to 6 points lost, p = 1, of 100 cases"),
        Statement("better", "B is 1.70× smaller: 90.6 MiB, A 154 MiB"),
    )
    a = Side("SmolLM2-w8a16", "rk3588", "onnxruntime", 161_004_032, *speeds, "0.1.0", report.created, "pass", 0.0008)
    b = Side("SmolLM2-w4a16", "rk3588", "onnxruntime", 95_004_032, None, None, "0.1.0", report.created)
    return SideBySide(a, b, "100 cases of home, run now", report.quality, said, ("A's answers: computed, and kept",))
