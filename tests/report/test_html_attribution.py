from __future__ import annotations

import math
from dataclasses import replace

import pytest

from chipwise.report.attribution import Attribution, Fault, LayerDamage, TensorCount
from chipwise.report.html import render_html
from chipwise.report.html_attribution import attribution_section, layer_words
from chipwise.report.report import Report
from tests.report.samples import full_report


def attribution() -> Attribution:
    layers = [
        LayerDamage("layers.1.attention", 0.3, 0.1, 0.5, 0.02, 0.49),
        LayerDamage("layers.1.kv_cache", 0.2, 0.1, 0.48, 0.03, 0.48, "layers.1.attention"),
        LayerDamage("layers.0.feed_forward", 0.1, 0.0, 0.02, 0.5, 0.01),
        LayerDamage("layers.0.residual", 0.0, 0.0, 0.0, 0.51, 0.0),
        LayerDamage("kv_cache", 0.2, 0.1, math.inf, 0.03, math.inf, "all"),
    ]
    faults = (Fault("layers.1.kv_cache", "it rounds <much>"),)
    tensors = (TensorCount("layers.0.output", "decode", 1024, 3, 17),)
    return Attribution(faults, tuple(layers), tensors, 0.51, 0.5, 0.52, 4)


def test_the_section_names_the_culprit_and_shows_layers_plots_and_lost_values() -> None:
    page = attribution_section(attribution())
    assert "<b>layer 1 KV cache</b>: it rounds &lt;much&gt;" in page
    assert "1 of 3 layers carry 98 % of the damage: layer 1 attention." in page
    assert page.count("<svg") == 4  # damage, and errors of attention, feed-forward and residual stream
    assert "layer 1 attention: 0.490 nats" in page
    assert "<code>layers.0.output</code></td><td>decode" in page
    assert "infinite" in page


def test_without_damage_it_says_so_and_without_attribution_it_is_empty() -> None:
    assert "Nothing: the candidate computes what the reference does." in attribution_section(Attribution(texts=4))
    assert attribution_section(None) == ""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("layers.12.feed_forward", "layer 12 feed-forward"),
        ("layers.0.residual", "layer 0 residual stream"),
        ("kv_cache", "KV cache"),
        ("template", "chat template"),
        ("something", "something"),
    ],
)
def test_layers_are_called_by_words(name: str, words: str) -> None:
    assert layer_words(name) == words


def test_a_report_keeps_it_and_old_reports_have_none() -> None:
    report = replace(full_report(), attribution=attribution())
    assert Report.from_json(report.to_json(), where="x") == report
    assert 'id="attribution"' in render_html(report)
    without = replace(report, attribution=None).to_json().replace(b' "attribution":null,\n', b"")
    assert Report.from_json(without, where="x").attribution is None
    assert 'id="attribution"' not in render_html(replace(report, attribution=None))


def test_the_fewest_layers_that_carry_a_share() -> None:
    found = attribution()
    assert [one.layer for one in found.carrying(0.5)] == ["layers.1.attention"]
    assert [one.layer for one in found.carrying(0.99)] == ["layers.1.attention", "layers.0.feed_forward"]
    assert found.culprit == "layers.1.kv_cache"
    assert Attribution().carrying() == ()
