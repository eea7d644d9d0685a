"""The engine and its session: one slot, driven token by token through the mode that returns logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipwise.bundle import record_self_test, run_self_test
from chipwise.engine import Batch, Session
from chipwise.engine.registry import get_engine
from chipwise.engine.rkllm import RkllmEngine
from chipwise.errors import ChipwiseError, DependencyError, EngineError, InputError
from tests.engine.conftest import MakeBoard
from tests.engine.rkllm.conftest import WriteModel
from tests.engine.rkllm.oracle import VOCAB, answer, logits


def _open(
    board: Path, path: Path, library: Path, *, n_slots: int = 1, max_context: int = 64, **options: Any
) -> Session:
    return RkllmEngine(board).open(
        {"rkllm": path}, n_slots=n_slots, max_context=max_context, options={"library": str(library), **options}
    )


@pytest.fixture
def session(board: MakeBoard, write_model: WriteModel, library: Path) -> Any:
    opened = _open(board("rk3588"), write_model(), library, max_context=50)
    yield opened
    opened.close()


def _batch(tokens: list[int], past: int, wanted: Any = "last") -> Batch:
    return Batch(0, np.array([tokens]), np.array([past]), wanted)


def test_properties(session: Session) -> None:
    assert (session.n_slots, session.max_context, session.vocab_size, session.max_step_tokens) == (1, 50, VOCAB, 50)


def test_chunks_single_tokens_and_steps_back(session: Session) -> None:
    sequence = [3, 1, 4, 1, 5, 9, 2]
    assert session.step(_batch(sequence[:4], 0)).logits[0].tolist() == logits(sequence[:4]).tolist()
    assert session.step(_batch(sequence[4:6], 4)).logits[0].tolist() == logits(sequence[:6]).tolist()
    assert session.step(_batch(sequence[6:], 6)).logits[0].tolist() == logits(sequence).tolist()
    assert session.step(_batch([8], 2)).logits[0].tolist() == logits([3, 1, 8]).tolist()
    every = session.step(_batch(sequence[2:5], 2, "all")).logits
    assert every.shape == (1, 3, VOCAB)
    assert every[0, -1].tolist() == logits([3, 1, 4, 1, 5]).tolist()


def test_greedy_through_logits_is_what_the_runtime_generates(session: Session) -> None:
    test = record_self_test(session, [7, 7, 3], max_tokens=6)
    assert list(test.tokens) == answer([7, 7, 3], 6)
    run_self_test(session, test, where="b")


def test_what_a_step_refuses(session: Session) -> None:
    session.step(_batch([1, 2], 0))
    for batch, text in (
        (_batch([1], 3), "holds 2 tokens, the batch says 3"),
        (_batch([VOCAB], 2), f"the vocabulary has {VOCAB}"),
        (_batch([1] * 51, 0), "a step takes 1 to 50"),
        (Batch(1, np.array([[1]]), np.array([0])), "slots 1..1 of 1"),
    ):
        with pytest.raises(EngineError, match=text):
            session.step(batch)
    assert session.step(_batch([3], 2)).logits[0].tolist() == logits([1, 2, 3]).tolist()


def test_one_slot_moves_nowhere(session: Session) -> None:
    session.step(_batch([1, 2], 0))
    session.move_slot(0, 0, 2)
    for source, target, tokens in ((0, 1, 1), (1, 0, 1), (0, 0, 3)):
        with pytest.raises(EngineError, match="there is one slot"):
            session.move_slot(source, target, tokens)


def test_a_closed_session(session: Session) -> None:
    session.close()
    session.close()
    with pytest.raises(EngineError, match="closed"):
        session.step(_batch([1], 0))


def test_the_last_place_is_the_runtimes_own(board: MakeBoard, write_model: WriteModel, library: Path) -> None:
    session = _open(board("rk3588"), write_model(limit=64), library, max_context=64)
    assert session.max_context == 63
    assert session.step(_batch([1] * 63, 0)).logits[0].tolist() == logits([1] * 63).tolist()
    session.close()


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("lying_logits", "it generates token"),
        ("zero_logits", "its logits are zero or not finite"),
        ("remembering_logits", "its logits for the same tokens change with what ran before"),
        ("no_logits", "the runtime gave no logits"),
    ],
)
def test_a_runtime_that_cannot_be_driven_so_is_found_out(
    board: MakeBoard, write_model: WriteModel, library: Path, fault: str, text: str
) -> None:
    with pytest.raises(EngineError, match=text):
        _open(board("rk3588"), write_model(fault=fault), library)


def test_logits_of_the_last_token_only(board: MakeBoard, write_model: WriteModel, library: Path) -> None:
    session = _open(board("rk3588"), write_model(fault="last_row_only"), library)
    assert session.step(_batch([1, 2], 0)).logits[0].tolist() == logits([1, 2]).tolist()
    with pytest.raises(EngineError, match="gave logits of 1 tokens, 2 were asked for"):
        session.step(_batch([1, 2], 0, "all"))
    session.close()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"n_slots": 4}, r"4 slots: one instance .* \(`chipwise serve --slots 1`\)"),
        ({"n_slots": 0}, "0 slots"),
        ({"max_context": 0}, "a slot of 0 tokens"),
        ({"max_context": 16385}, "a context of 16416 tokens; take a multiple of 32 of at most 16384"),
        ({"threads": 2}, "no option 'threads'; it has library, embed_flash, trust_layout"),
        ({"embed_flash": 1}, "embed_flash is 1, not of type bool"),
        ({"library": "none.so"}, "librkllmrt.so cannot be loaded"),
    ],
)
def test_what_the_engine_refuses(
    board: MakeBoard, write_model: WriteModel, library: Path, changes: dict[str, Any], text: str
) -> None:
    with pytest.raises(ChipwiseError, match=text):
        _open(board("rk3588"), write_model(), **{"library": library, **changes})


def test_other_boards_and_no_board(board: MakeBoard, write_model: WriteModel, library: Path) -> None:
    with pytest.raises(EngineError, match="runs on rk3588, rk3576, rk3562, rv1126b, and this board has an rk3566"):
        _open(board("rk3566"), write_model(), library)
    with pytest.raises(EngineError, match=r"no \.rkllm file among the files \['decoder'\]"):
        RkllmEngine(board("rk3576")).open({"decoder": write_model()}, n_slots=1, max_context=64, options={})
    with pytest.raises(InputError, match="'rkllm' runs on a Rockchip board"):
        get_engine("rkllm").open({"rkllm": write_model()}, n_slots=1, max_context=64, options={})


def test_a_board_without_the_library(board: MakeBoard, write_model: WriteModel) -> None:
    with pytest.raises(DependencyError, match="give its path as the option library"):
        RkllmEngine(board("rk3588")).open({"rkllm": write_model()}, n_slots=1, max_context=64, options={})
