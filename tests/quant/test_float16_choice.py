from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.quant.calibration import calibrate
from chipwise.quant.float16_choice import Drifted, GatedModel, GroupDamage, choose_float16, drift_of
from chipwise.quant.precision_gates import add_precision_gates, gated_values
from chipwise.quant.product_groups import ProductGroup, product_groups
from chipwise.rewrite.runner import Runner
from tests.quant.changed_weights import Planted, dynamic_graph, feeds_of, read_case, scaled

BAD = tuple(f"model.layers.1.self_attn.{part}_proj.weight" for part in "qkv")


class Additive:
    """A model whose groups' divergences add up; counts how often it is run."""

    def __init__(self, costs: Sequence[float]) -> None:
        self.costs, self.runs = costs, 0

    def drift(self, eight_bits: Collection[int], texts: int | None = None) -> Drifted:
        self.runs += 1
        kl = float(sum(self.costs[place] for place in eight_bits))
        return Drifted(kl, 1 / (1 + kl))


def _damages(costs: Sequence[float], sizes: Sequence[int]) -> list[GroupDamage]:
    return [
        GroupDamage(ProductGroup(f"v{i}", (f"w{i}",), (f"o{i}",), size), cost)
        for i, (cost, size) in enumerate(zip(costs, sizes, strict=True))
    ]


@settings(max_examples=60)
@given(
    groups=st.lists(st.tuples(st.floats(0, 10), st.integers(0, 10**9)), max_size=30),
    limit=st.floats(0, 20),
)
def test_as_few_groups_in_their_order_as_make_it_good(groups: list[tuple[float, int]], limit: float) -> None:
    costs, sizes = [cost for cost, _ in groups], [size for _, size in groups]
    model, damages = Additive(costs), _damages(costs, sizes)
    kept, left = choose_float16(model, damages, lambda drifted: drifted.kl_nats <= limit)  # type: ignore[arg-type]
    assert model.runs <= 2 * len(groups).bit_length()
    names = {one.group.value for one in kept}
    rest = [i for i, one in enumerate(damages) if one.group.value not in names]
    assert left.kl_nats == pytest.approx(sum(costs[i] for i in rest))
    assert left.kl_nats <= limit
    assert [one.a_byte for one in kept] == sorted((one.a_byte for one in damages), reverse=True)[: len(kept)]
    if kept:
        # The last one is needed.
        assert sum(costs[i] for i in rest) + kept[-1].kl_nats > limit * (1 - 1e-9)


def test_a_costly_group_of_few_bytes_comes_before_a_costlier_one_of_many() -> None:
    damages = _damages([1.0, 3.0, 0.5], [100, 1000, 1])
    kept, _ = choose_float16(Additive([1.0, 3.0, 0.5]), damages, lambda drifted: drifted.kl_nats < 3.1)  # type: ignore[arg-type]
    assert [one.group.value for one in kept] == ["v2", "v0"]


class OutputDecides(Additive):
    """Tokens agree only where the last group, the output layer, is in float16."""

    def drift(self, eight_bits: Collection[int], texts: int | None = None) -> Drifted:
        return replace(super().drift(eight_bits, texts), agreement=float(2 not in eight_bits))


@pytest.mark.parametrize(("agreement", "kl_nats", "wanted"), [(1.0, 1.6, ["v2"]), (0.0, 0.1, ["v0", "v1"])])
def test_the_output_layer_goes_first_if_fewer_bytes_then_do(
    agreement: float, kl_nats: float, wanted: list[str]
) -> None:
    costs = [1.0, 0.5, 0.01]
    damages = _damages(costs, [10, 1000, 100])
    damages[2] = replace(damages[2], group=replace(damages[2].group, outputs=("logits",)))
    kept, left = choose_float16(
        OutputDecides(costs), damages,  # type: ignore[arg-type]
        lambda drifted: drifted.kl_nats <= kl_nats and drifted.agreement >= agreement,
    )  # fmt: skip
    assert [one.group.value for one in kept] == wanted
    assert left.kl_nats <= kl_nats


def test_a_group_that_must_be_kept_comes_first_and_only_if_any_is_kept() -> None:
    model, damages = Additive([1.0, 5.0, 0.0]), _damages([1.0, 5.0, 0.0], [10, 10, 10])
    kept, _ = choose_float16(model, damages, lambda drifted: drifted.kl_nats <= 1, always={2})  # type: ignore[arg-type]
    assert [one.group.value for one in kept] == ["v2", "v1"]
    kept, _ = choose_float16(model, damages, lambda drifted: drifted.kl_nats <= 6, always={2})  # type: ignore[arg-type]
    assert kept == []


def _logits(*rows: Sequence[float]) -> np.ndarray:
    return np.array(rows, np.float32)


def test_drift_is_that_of_the_distributions() -> None:
    """0.5 and 0.5 that become 0.25 and 0.75: 0.5 ln 2 + 0.5 ln (2 / 3); then a row that is only moved."""
    before, after = _logits([0, 0], [1, 5]), _logits([0, np.log(3)], [101, 105])
    found = drift_of([(before, after)])
    assert found.kl_nats == pytest.approx(0.5 * (np.log(2) + np.log(2 / 3)) / 2, rel=1e-5)
    # Ties go to the first of the two tokens.
    assert found.agreement == 0.5
    assert drift_of([(before, before)]) == Drifted(0.0, 1.0)


def test_every_row_of_every_text_counts_alike_and_large_logits_do_not_overflow() -> None:
    same, other = _logits([1e4, 0]), _logits([0, 1e4])
    found = drift_of([(np.repeat(same, 3, 0), np.repeat(same, 3, 0)), (same, other)])
    assert (found.agreement, found.kl_nats) == (0.75, pytest.approx(2500))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> GatedModel:
    """A decoder with two channels of keys that are 3000 times larger, and which no query looks at."""
    config, plain = read_case("llama", tmp_path_factory.mktemp("planted"))
    half = config.head_dim // 2
    channels = [3, 3 + half]
    queries = [config.head_dim * head + channel for head in range(2) for channel in channels]
    weights = Planted(plain, {BAD[1]: scaled(channels, 3000), BAD[0]: scaled(queries, 0)})
    model = dynamic_graph(config, weights)
    feeds, groups = feeds_of(model, config), product_groups(model)
    ranges = calibrate(model, feeds, gated_values(groups), threads=1)
    add_precision_gates(model, groups, ranges)
    return GatedModel(Runner(model, threads=1), feeds, groups)


@pytest.fixture(scope="module")
def damages(planted: GatedModel) -> list[GroupDamage]:
    told: list[tuple[int, int]] = []
    found = planted.damages(texts=2, progress=lambda *of: told.append(of))
    assert told == [(i + 1, len(planted.groups)) for i in range(len(planted.groups))]
    return found


def test_a_product_with_an_outlier_in_its_output_is_kept_first(planted: GatedModel, damages: list[GroupDamage]) -> None:
    worst = max(damages, key=lambda one: one.kl_nats)
    assert worst.group.weights == BAD
    others = [one.kl_nats for one in damages if one is not worst]
    assert worst.kl_nats > 20 * max(others)
    kept, left = choose_float16(planted, damages, lambda drifted: drifted.kl_nats < worst.kl_nats / 10)
    assert [one.group.weights for one in kept] == [BAD]
    assert 0 < left.kl_nats < worst.kl_nats / 10
    rest = [i for i, one in enumerate(damages) if one is not worst]
    assert left == planted.drift(rest)


def test_nothing_is_kept_where_all_is_good_and_all_where_nothing_is(
    planted: GatedModel, damages: list[GroupDamage]
) -> None:
    kept, left = choose_float16(planted, damages, lambda drifted: True)
    assert kept == []
    assert left == planted.drift(range(len(damages)))
    kept, left = choose_float16(planted, damages, lambda drifted: False)
    assert len(kept) == len(damages)
    assert [one.a_byte for one in kept] == sorted((one.a_byte for one in damages), reverse=True)
    assert left == Drifted(0.0, 1.0)


def test_no_group_in_8_bits_moves_nothing(planted: GatedModel) -> None:
    assert planted.drift([]) == Drifted(0.0, 1.0)
    assert planted.drift([0], texts=1) != planted.drift([0])
