from __future__ import annotations

import numpy as np
import pytest

from chipwise.errors import RewriteError
from chipwise.model.decoder import GraphSpec
from chipwise.model.model import Model
from chipwise.quant.calibration import calibrate
from chipwise.quant.emulate import stored_values
from chipwise.quant.twins import cache_twins, twin_ranges, twins
from chipwise.rewrite.decoder_feeds import prompt_feed
from tests.quant.small_graphs import decoder

DYNAMIC = GraphSpec("prefill", 48)
STATIC = GraphSpec("prefill", 48, 1, 20, 20)
DECODE = GraphSpec("decode", 48, 1, 1, 1)


@pytest.mark.parametrize("name", ["llama", "gemma"])
@pytest.mark.parametrize("spec", [STATIC, DECODE], ids=["prefill", "decode"])
def test_every_stored_value_of_a_static_graph_has_a_range(
    name: str, spec: GraphSpec, request: pytest.FixtureRequest
) -> None:
    source: Model = request.getfixturevalue(name)
    window = source.config.sliding_window if source.config else None
    calibrated, model = decoder(source, DYNAMIC), decoder(source, spec)
    feed = prompt_feed(calibrated.graph, list(range(3, 23)), window=window)
    ranges = calibrate(calibrated, [feed], stored_values(calibrated))
    found = twin_ranges(model, calibrated, ranges)
    assert set(found) == set(stored_values(model))
    # A prompt of the static length: both graphs compute the same, so the ranges are the same too.
    if spec is STATIC:
        again = calibrate(model, [prompt_feed(model.graph, list(range(3, 23)))], stored_values(model))
        for value, one in again.items():
            assert (one.low, one.high) == pytest.approx((found[value].low, found[value].high), rel=1e-4, abs=1e-5), (
                value
            )


def test_a_cache_has_the_scale_of_what_fills_it(llama: Model) -> None:
    calibrated, model = decoder(llama, DYNAMIC), decoder(llama, DECODE)
    feed = prompt_feed(calibrated.graph, list(range(3, 23)))
    ranges = calibrate(calibrated, [feed], stored_values(calibrated))
    found = twin_ranges(model, calibrated, ranges)
    filled = twin_ranges(decoder(llama, STATIC), calibrated, ranges)
    assert found["past.0.key"] == filled["present.0.key"] == found["present.0.key"]
    assert cache_twins(model)["past.1.value"] == "present.1.value"


def test_graphs_of_other_decoders_are_refused(llama: Model, gemma: Model) -> None:
    with pytest.raises(RewriteError, match="compute different things"):
        twins(decoder(llama, STATIC), decoder(gemma, DYNAMIC))


def test_a_value_that_was_not_calibrated(llama: Model) -> None:
    with pytest.raises(RewriteError, match="was not calibrated"):
        twin_ranges(decoder(llama, STATIC), decoder(llama, DYNAMIC), {})


def test_twins_compute_the_same(llama: Model) -> None:
    ours, theirs = decoder(llama, STATIC), decoder(llama, DYNAMIC)
    pairs = twins(ours, theirs)
    wanted = [name for name in stored_values(theirs) if not name.startswith("attention_bias")]
    prompt = list(range(3, 23))
    found = calibrate(theirs, [prompt_feed(theirs.graph, prompt)], wanted)
    mine = {twin: name for name, twin in pairs.items()}
    again = calibrate(ours, [prompt_feed(ours.graph, prompt)], [mine[name] for name in wanted])
    for name in wanted:
        assert again[mine[name]].high == pytest.approx(found[name].high, rel=1e-4, abs=1e-5)
    assert np.isfinite([one.low for one in found.values()]).all()
