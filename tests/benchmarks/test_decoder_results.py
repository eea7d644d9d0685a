from __future__ import annotations

from benchmarks.decoder_results import DecoderBuild, KeptProducts, RockchipDecoders, rockchip_decoders
from benchmarks.results import BuildStep


def _build(**changes: object) -> DecoderBuild:
    given = {
        "model": "lm", "chip": "rk3588", "recipe": "w8a8", "repaired": True, "outcome": "pass", "cases": 32,
        "exact": None,
        "exact_reference": None, "kl_mean_nats": 0.0123, "top1_agreement": 0.957, "size_bytes": 412_000_000,
        "placement": "prefill: 9 operators on the NPU", "kept_words": "2 of 9 groups",
        "kept": (KeptProducts("model.layers.1.mlp.down_proj.weight", "100 bytes more"),),
        "steps": (BuildStep("compile", 61.5, None, "done"),),
    }  # fmt: skip
    return DecoderBuild(**{**given, **changes})  # type: ignore[arg-type]


def test_a_build_shows_what_it_kept_and_what_that_cost() -> None:
    page = "\n".join(rockchip_decoders(RockchipDecoders("2026-11-30", "toolkit 1", (_build(),))))
    assert "| lm | rk3588 | w8a8 | yes | passed | 32 |  | 0.0123 | 95.7% | 412 MB | 2 of 9 groups |" in page
    assert "- compile: 61.5 s. done" in page
    assert "| model.layers.1.mlp.down_proj.weight | 100 bytes more |" in page


def test_a_plain_build_that_fails_says_so_and_a_suite_shows_both_sides() -> None:
    build = _build(repaired=False, outcome="fail", kept=(), kept_words="nothing", exact=0.5, exact_reference=0.99)
    page = "\n".join(rockchip_decoders(RockchipDecoders("2026-11-30", "toolkit 1", (build,))))
    assert "| no | **failed** | 32 | 50.0% (99.0%) |" in page
    assert "Kept in float16" not in page
