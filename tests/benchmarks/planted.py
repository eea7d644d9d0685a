"""Planted damage as the benchmark would find it, with made-up numbers."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.planted_results import PlantedDamage, PlantedRow, SoundRun


def row() -> PlantedRow:
    return PlantedRow(
        planted="scores of layer 1 in int8 with a mask of -1e9",
        culprit="layers.1.attention",
        named="layers.1.attention",
        kl_nats=0.0493,
        lost_points={"keyword": 18.75, "logic": 0.0, "long_range": 25.0, "noise": -1.0},
        cases=400,
        verdict="fail",
        failed_by=("keyword_fidelity_drop",),
        output_cosine=0.9939,
        layer_cosine=0.84,
        perplexity_ratio=1.05,
    )


def planted_damage() -> PlantedDamage:
    template = replace(
        row(), planted="a chat template of another family", culprit="template", named="positions", kl_nats=None,
        perplexity_ratio=None, output_cosine=1.0, layer_cosine=1.0, verdict="unclear",
    )  # fmt: skip
    harmless = replace(row(), lost_points={"keyword": 0.5}, verdict="pass", output_cosine=0.5, perplexity_ratio=9.0)
    return PlantedDamage(
        "2026-07-28",
        "home_agent",
        (row(), template, harmless),
        (SoundRun("the model as it is", 400, ("pass", "fail"), (1e-9, 2e-9)),),
    )
