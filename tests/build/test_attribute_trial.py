from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.build import BuildOptions, build
from chipwise.build.attribute_trial import in_words
from chipwise.report.attribution import Attribution, Fault
from chipwise.report.report import NotRun


@pytest.mark.parametrize("target", ["host", "rk3588"])
def test_a_recipe_that_fails_says_which_layers_did_it(target: str, files: Path, tmp_path: Path) -> None:
    options = BuildOptions(
        str(files / "decoder"), target, tmp_path / "b", "w8a8", queries=files / "queries.jsonl", max_cases=3,
        gate={"kl_mean_nats": 0.0}, threads=1, emulate=True,
    )  # fmt: skip
    result = build(options)
    assert not result.passed
    found = result.report.attribution
    assert found is not None
    assert found.faults
    assert found.kl_nats > 0
    # A chip stores the stream and the cache in 8 bits, a CPU does not.
    errors = {layer.layer: layer.own_error for layer in found.layers}
    assert (errors["layers.0.residual"] > 0) == (target == "rk3588")
    assert ("layers.0.kv_cache" in errors) == (target == "rk3588")
    step = next(step for step in result.report.steps if step.name == "attribute")
    assert step.note.startswith("most of it from ")


def test_a_recipe_that_passes_is_not_attributed(files: Path, tmp_path: Path) -> None:
    options = BuildOptions(
        str(files / "decoder"), "host", tmp_path / "b", "w8a16", queries=files / "queries.jsonl", max_cases=3,
        gate={"kl_mean_nats": 9.0, "perplexity_ratio": 9.0, "top1_agreement": 0.0}, threads=1,
    )  # fmt: skip
    result = build(options)
    assert result.report.attribution is None
    assert "attribute" not in {step.name for step in result.report.steps}


def test_the_outcome_in_words() -> None:
    assert in_words(NotRun("attribution", "no text fits")) == "not run: no text fits"
    assert in_words(Attribution((Fault("layers.2.attention", ""),))) == "most of it from layer 2 attention"
    assert in_words(Attribution()) == "the graphs compute what they should"
