from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from chipwise.build.graph_files import GraphFiles
from chipwise.build.portable_graphs import PortableGraphs
from chipwise.build.portable_shape import PortableShape
from chipwise.engine import Batch, Session
from chipwise.errors import InputError, RewriteError
from chipwise.model.config import DecoderConfig
from chipwise.model.model import Model
from chipwise.quant.recipe import parse_recipe
from chipwise.target import load_target
from tests.quant.small_graphs import cosine

RNG = np.random.default_rng(11)
PROMPTS = [RNG.integers(3, 60, n).tolist() for n in (9, 14, 20, 20, 26)]
SHAPE = PortableShape(tokens=32, context=64)


def _graphs(model: Model, folder: Path, target: str = "rk3588") -> PortableGraphs:
    assert isinstance(model.config, DecoderConfig)
    assert model.weights is not None
    return PortableGraphs(
        model.config, model.weights, SHAPE, folder, target=load_target(target), prompts=PROMPTS, threads=1
    )


@pytest.fixture(scope="module")
def graphs(even: Model, tmp_path_factory: pytest.TempPathFactory) -> PortableGraphs:
    return _graphs(even, tmp_path_factory.mktemp("portable"))


@pytest.fixture(scope="module")
def reference(graphs: PortableGraphs) -> GraphFiles:
    return graphs.reference()


def _open(files: GraphFiles) -> Session:
    return files.open(n_slots=1, max_context=40, threads=1)


def _logits(session: Session, tokens: list[int]) -> np.ndarray:
    return session.step(Batch(0, np.array([tokens]), np.array([0]), "all")).logits[0].copy()


@pytest.fixture
def wanted(reference: GraphFiles) -> Iterator[np.ndarray]:
    session = _open(reference)
    yield _logits(session, PROMPTS[2])
    session.close()


def test_the_mask_is_as_small_as_the_scores_allow(graphs: PortableGraphs, reference: GraphFiles) -> None:
    assert reference.context == SHAPE.context
    assert -64 < graphs.mask_value < -15


def test_what_was_rewritten_is_proven(graphs: PortableGraphs, reference: GraphFiles) -> None:
    steps = {step.name: step for step in graphs.prove(reference, PROMPTS[0])}
    assert set(steps) == {"fix_shapes", "mask_constant"}
    assert all((step.max_abs_difference or 0) < 1e-4 for step in steps.values())
    assert "prefill of 32 tokens, a cache of 64" in steps["fix_shapes"].note


def test_a_mask_that_does_not_mask_is_caught(
    graphs: PortableGraphs, reference: GraphFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(graphs.__dict__, "mask_value", -2.0)
    with pytest.raises(RewriteError, match="mask_constant: the logits differ"):
        graphs.prove(reference, PROMPTS[0])


@pytest.mark.parametrize(("recipe", "least"), [("w8a8", 0.99), ("fp16", 0.99999), ("w4a16", 0.94), ("w8a16", 0.999)])
def test_a_candidate_answers_alike_and_in_less_space(
    recipe: str, least: float, graphs: PortableGraphs, reference: GraphFiles, wanted: np.ndarray
) -> None:
    found = graphs.candidate(parse_recipe(recipe), reference, PROMPTS, progress=lambda done, of: None)
    assert found.weights_bytes < 0.75 * reference.weights_bytes
    assert (found.emulates, found.options) == ("rk3588", {"fuse_qdq": False})
    assert (found.ranges is not None) == (recipe == "w8a8")
    session = _open(found)
    logits = _logits(session, PROMPTS[2])
    assert cosine(logits, wanted) > least
    assert not np.array_equal(logits, wanted)
    # Prefill and decode have the same numbers: a token more, or one at a time, changes nothing.
    _logits(session, PROMPTS[2][:5])
    for i, token in enumerate(PROMPTS[2][5:], start=5):
        step = session.step(Batch(0, np.array([[token]]), np.array([i]))).logits[0]
    assert np.allclose(step, logits[-1], atol=1e-3 * np.abs(logits).max())
    session.close()


def test_graphs_share_one_weights_file(graphs: PortableGraphs, reference: GraphFiles) -> None:
    assert sorted(reference.files) == ["decode", "prefill"]
    assert graphs is not None
    values = sum(path.stat().st_size for path in reference.files.values())
    assert values < reference.weights_bytes


def test_windows_norms_and_gelu_are_emulated_too(gemma: Model, tmp_path: Path) -> None:
    graphs = _graphs(gemma, tmp_path)
    reference = graphs.reference()
    graphs.prove(reference, PROMPTS[0])
    found = graphs.candidate(parse_recipe("w8a8"), reference, PROMPTS, progress=lambda done, of: None)
    one, other = _open(reference), _open(found)
    assert cosine(_logits(other, PROMPTS[1]), _logits(one, PROMPTS[1])) > 0.95


def test_nothing_to_calibrate_with(graphs: PortableGraphs, reference: GraphFiles) -> None:
    with pytest.raises(InputError, match="no calibration samples"):
        graphs.candidate(parse_recipe("w8a8"), reference, [], progress=lambda done, of: None)


def test_other_prompts_go_beyond_the_ranges(graphs: PortableGraphs, reference: GraphFiles) -> None:
    found = graphs.candidate(parse_recipe("w8a8"), reference, [[3, 3, 3]], progress=lambda done, of: None)
    assert found.ranges is not None
    assert [one.rule for one in found.ranges.findings(PROMPTS, threads=1)] == ["calibration_range"]
    assert found.ranges.findings([[3, 3, 3]], threads=1) == ()
