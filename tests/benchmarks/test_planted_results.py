from __future__ import annotations

from pathlib import Path

from benchmarks.planted_results import PlantedDamage, planted_damage
from benchmarks.results import load, save
from tests.benchmarks import planted


def test_what_each_measure_misses() -> None:
    int8, template, harmless = planted.planted_damage().rows
    assert (int8.named_first, int8.costly, int8.cosine_misses, int8.perplexity_misses) == (True, True, True, True)
    assert (template.named_first, template.perplexity_misses) == (False, True)
    assert (harmless.costly, harmless.cosine_misses, harmless.perplexity_misses) == (False, False, False)


def test_the_section_says_goals_culprits_and_what_was_missed() -> None:
    page = "\n".join(planted_damage(planted.planted_damage()))
    assert "the right culprit first in 9 of 10 (2 of 3: missed)" in page
    assert "fails (1 of 2: missed)" in page
    assert (
        "| scores of layer 1 in int8 with a mask of -1e9 | `layers.1.attention` | 18.8 / 0.0 / 25.0 / -1.0 "
        "| fails (400) | 0.0493 | 0.9939 * | 0.8400 | 1.05 * |"
    ) in page
    assert "| `positions`, not `template` |" in page
    assert "misses 2" in page
    assert "both together 2" in page
    assert "The model as it is: the gate passes in 1 of 2 draws of 400 cases, fails in 1" in page


def test_it_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    save(planted.planted_damage(), tmp_path / "r.json")
    assert load(PlantedDamage, tmp_path / "r.json") == planted.planted_damage()
