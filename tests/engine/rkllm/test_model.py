"""A model in a runtime that is really compiled and called."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from chipwise.engine.rkllm import RkllmModel, RkllmSampling, RkllmToken
from chipwise.engine.rkllm.settings import RkllmSettings
from chipwise.errors import ChipwiseError, DependencyError, EngineError, InputError, ModelFormatError
from tests.engine.rkllm.conftest import OpenModel, WriteModel
from tests.engine.rkllm.oracle import answer, logits, prompt_that_answers

Seen = Callable[[], dict[str, str]]
PROMPT = [3, 1, 4, 1, 5]


def _why(library: Path, path: Path, **settings: object) -> str:
    with pytest.raises(ChipwiseError) as caught:
        RkllmModel(path, RkllmSettings(**{"context": 256, "max_new_tokens": 9, "library": str(library), **settings}))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_it_opens_with_all_set_and_prints_nothing(
    open_model: OpenModel, seen: Seen, capfd: pytest.CaptureFixture[str]
) -> None:
    model = open_model(max_new_tokens=7, embed_flash=True)
    asked = seen()
    assert asked.pop("path").endswith("m.rkllm")
    assert asked == {
        "context": "256", "new": "7", "top_k": "1", "top_p": "1", "temperature": "1", "repeat": "1", "skip": "1",
        "async": "0", "flash": "1", "n_batch": "1",
    }  # fmt: skip
    facts = model.facts
    assert (facts.runtime_version, facts.platform, facts.context_limit, facts.npu_cores) == (
        "1.3.0",
        "RK3588",
        16384,
        3,
    )
    assert capfd.readouterr() == ("", "")


def test_tokens_in_tokens_out(open_model: OpenModel, seen: Seen) -> None:
    model, got = open_model(), list[RkllmToken]()
    made = model.generate(PROMPT, got.append, max_new_tokens=6)
    assert list(made.tokens) == answer(PROMPT, 6)
    assert [token.id for token in got] == list(made.tokens)
    assert made.outcome == "finished"
    assert made.text == "".join(token.text for token in got)
    asked = seen()
    assert {name: asked[name] for name in ("type", "fed", "mode", "keep", "new", "top_k", "repeat", "role")} == {
        "type": "1", "fed": "5", "mode": "0", "keep": "0", "new": "6", "top_k": "1", "repeat": "1", "role": "user"
    }  # fmt: skip
    # a second answer does not depend on the first
    assert model.generate(PROMPT, max_new_tokens=6).tokens == made.tokens


def test_text_in_and_the_figures_out(open_model: OpenModel, seen: Seen) -> None:
    made = open_model().generate("hé", max_new_tokens=4, sampling=RkllmSampling(top_k=40, repeat_penalty=1.25))
    assert list(made.tokens) == answer(list("hé".encode()), 4)
    assert (seen()["type"], seen()["top_k"], seen()["repeat"]) == ("0", "40", "1.25")
    figures = made.figures
    assert figures is not None
    assert (figures.prefill_s, figures.prefill_tokens) == (pytest.approx(0.0075), 3)
    assert (figures.generate_s, figures.generate_tokens) == (pytest.approx(0.1), 4)
    assert figures.memory_peak_bytes == int(123.5 * (1 << 20))


def test_a_character_that_is_cut_is_handed_on_whole(open_model: OpenModel) -> None:
    got: list[RkllmToken] = []
    made = open_model().generate(prompt_that_answers(40, 41), got.append, max_new_tokens=2)
    assert [token.text for token in got] == ["", "中"]
    assert made.text == "中"
    cut = open_model().generate(prompt_that_answers(40, 41), max_new_tokens=1)
    assert cut.text == "\ufffd"  # the model said no more


def test_a_pause_is_gone_on_from(open_model: OpenModel) -> None:
    model = open_model()
    whole = model.generate(PROMPT, max_new_tokens=10).tokens

    def after_three(token: RkllmToken, seen: list[int] = []) -> None:  # noqa: B006
        seen.append(token.id)
        if len(seen) == 3:
            model.pause()

    first = model.generate(PROMPT, after_three, max_new_tokens=10)
    assert (first.tokens, first.outcome, first.figures) == (whole[:3], "paused", None)
    assert model.paused
    rest = model.resume(max_new_tokens=7)
    assert (rest.tokens, rest.outcome) == (whole[3:], "finished")
    with pytest.raises(EngineError, match="nothing was paused"):
        model.resume()


def test_another_prompt_after_a_pause_is_not_mixed_with_it(open_model: OpenModel) -> None:
    model = open_model()
    model.generate(PROMPT, lambda token: model.pause(), max_new_tokens=10)
    assert list(model.generate([7, 8], max_new_tokens=3).tokens) == answer([7, 8], 3)
    assert not model.paused


def test_a_pause_in_the_middle_of_a_character(open_model: OpenModel) -> None:
    model = open_model()
    made = model.generate(prompt_that_answers(40, 41), lambda token: model.pause(), max_new_tokens=2)
    assert (made.tokens, made.text) == ((40,), "")


@pytest.mark.parametrize(
    ("fault", "text"),
    [("forgetful", "of 0 tokens over"), ("forgetful_late", "of 5 tokens over a pause: what follows is")],
)
def test_a_runtime_that_forgets_over_a_pause_is_found_out(open_model: OpenModel, fault: str, text: str) -> None:
    model = open_model(fault)
    model.generate(PROMPT, lambda token: model.pause(), max_new_tokens=10)
    with pytest.raises(EngineError, match=f"{text}.*; generate again from the whole text"):
        model.resume(max_new_tokens=2)
    assert list(model.generate(PROMPT, max_new_tokens=2).tokens) == answer(PROMPT, 2)


def test_history_is_kept_if_asked(open_model: OpenModel) -> None:
    model = open_model()
    said = model.generate(PROMPT, max_new_tokens=3, keep_history=True).tokens
    assert model.kv_tokens == 8
    more = model.generate([9], max_new_tokens=3, keep_history=True).tokens
    assert list(more) == answer([*PROMPT, *said, 9], 3)
    model.clear_history()
    assert model.kv_tokens == 0
    assert list(model.generate([9], max_new_tokens=3).tokens) == answer([9], 3)


def test_an_abort_from_another_thread(open_model: OpenModel) -> None:
    model, begun = open_model("slow"), threading.Event()
    timer = threading.Thread(target=lambda: (begun.wait(10), model.abort()))
    timer.start()
    made = model.generate(PROMPT, lambda token: begun.set(), max_new_tokens=200)
    timer.join()
    assert made.outcome == "aborted"
    assert list(made.tokens) == answer(PROMPT, len(made.tokens))
    assert 0 < len(made.tokens) < 200
    assert list(model.generate(PROMPT, max_new_tokens=2).tokens) == answer(PROMPT, 2)


def test_an_abort_from_the_callback(open_model: OpenModel) -> None:
    model = open_model()
    made = model.generate(PROMPT, lambda token: model.abort(), max_new_tokens=5)
    assert (made.outcome, list(made.tokens)) == ("aborted", answer(PROMPT, 1))
    assert list(model.generate([2], max_new_tokens=1).tokens) == answer([2], 1)


def test_in_the_runtimes_own_thread(open_model: OpenModel) -> None:
    model, got = open_model("slow"), list[int]()
    run = model.start(PROMPT, lambda token: got.append(token.id))
    assert model.running
    with pytest.raises(EngineError, match="one request at a time"):
        model.generate(PROMPT)
    with pytest.raises(EngineError, match=r"no answer within 0\.01 s; abort it"):
        model.wait(run, 0.01)
    while len(got) < 3:
        time.sleep(0.001)
    model.pause()
    made = model.wait(run, 10)
    assert (made.outcome, list(made.tokens)) == ("paused", got)
    assert list(model.resume(max_new_tokens=2).tokens) == answer([*PROMPT, *got], 2)
    with pytest.raises(EngineError, match="waited for already"):
        model.wait(run)


def test_aborted_in_the_runtimes_own_thread(open_model: OpenModel) -> None:
    model = open_model("slow")
    run = model.start(PROMPT)
    model.abort()
    assert model.wait(run, 10).outcome == "aborted"
    assert list(model.generate([2], max_new_tokens=1).tokens) == answer([2], 1)


def test_closing_ends_a_run_that_nobody_waits_for(open_model: OpenModel, library: Path) -> None:
    model = open_model("slow")
    model.start(PROMPT)
    before = ctypes.CDLL(str(library)).fake_destroyed()
    model.close()
    model.close()
    assert ctypes.CDLL(str(library)).fake_destroyed() == before + 1
    for call in (lambda: model.generate(PROMPT), lambda: model.kv_tokens, lambda: model.logits(PROMPT)):
        with pytest.raises(EngineError, match="the model is closed"):
            call()


def test_closing_ends_a_run_of_another_thread(open_model: OpenModel) -> None:
    model, begun, made = open_model("slow"), threading.Event(), list[str]()
    thread = threading.Thread(
        target=lambda: made.append(model.generate(PROMPT, lambda token: begun.set(), max_new_tokens=200).outcome)
    )
    thread.start()
    assert begun.wait(10)
    model.close()
    thread.join()
    assert made == ["aborted"]


def test_a_run_does_not_close_its_own_model(open_model: OpenModel) -> None:
    model = open_model()
    with pytest.raises(EngineError, match="a run cannot close its own model"):
        model.generate(PROMPT, lambda token: model.close())
    assert list(model.generate(PROMPT, max_new_tokens=1).tokens) == answer(PROMPT, 1)


def test_what_a_callback_raises_is_raised_here(open_model: OpenModel) -> None:
    model = open_model()

    def fails(token: RkllmToken) -> None:
        raise LookupError(token.id)

    with pytest.raises(LookupError):
        model.generate(PROMPT, fails)
    assert list(model.generate(PROMPT, max_new_tokens=2).tokens) == answer(PROMPT, 2)


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("error", "failed after 2 tokens: its callback was told of an error"),
        ("returns", "after 0 tokens: it returned -1"),
    ],
)
def test_runs_that_fail(open_model: OpenModel, fault: str, text: str) -> None:
    model = open_model(fault)
    with pytest.raises(EngineError, match=text):
        model.generate(PROMPT)
    if fault == "returns":
        with pytest.raises(EngineError, match=r"could not begin a run \(it returned -1\)"):
            model.start(PROMPT)
    with pytest.raises(EngineError):  # it is not left busy
        model.generate(PROMPT)


def test_prompt_caches(open_model: OpenModel, tmp_path: Path) -> None:
    model, path = open_model(), tmp_path / "p.cache"
    with pytest.raises(InputError, match="no such file; generate with save_prompt_cache first"):
        model.load_prompt_cache(path)
    model.generate(PROMPT, max_new_tokens=2, save_prompt_cache=path)
    assert path.read_text() == "5"
    model.load_prompt_cache(path)
    figures = model.generate([*PROMPT, 9], max_new_tokens=2).figures
    assert figures is not None
    assert figures.prefill_tokens == 1
    model.release_prompt_cache()
    path.write_text("junk")
    with pytest.raises(EngineError, match="could not load the prompt cache"):
        model.load_prompt_cache(path)


def test_logits(open_model: OpenModel) -> None:
    model = open_model()
    rows = model.logits(PROMPT)
    assert rows.dtype == np.float32
    assert rows.tolist() == [logits(PROMPT[: n + 1]).tolist() for n in range(5)]
    with pytest.raises(EngineError, match="the runtime gave no logits"):
        open_model("no_logits").logits(PROMPT)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"platform": "RK3576"}, "the model is for another chip than this board's (RK3588)"),
        ({"fault": "too_old"}, "the model was not converted for this runtime (1.3.0)"),
        ({"limit": 128}, "a context of 256 tokens, and the model was converted for 128; open it with a context of at"),
        ({"fault": "memory"}, "the NPU found no memory for the model"),
        ({"fault": "lite"}, "librkllmrt.so runs on RK3588, RK3576, RV1126B, or RK3562 only"),
        ({"fault": "silent"}, "it returned -1; see dmesg"),
        ({"release": "1.2.3"}, "librkllmrt.so is of release 1.2.3, and chipwise knows 1.3"),
    ],
)
def test_what_keeps_a_model_from_opening(
    library: Path, write_model: WriteModel, words: dict[str, object], text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert text in _why(library, write_model(**words))
    assert capfd.readouterr() == ("", "")


def test_a_failure_that_returns_0(library: Path, tmp_path: Path) -> None:
    (tmp_path / "m.rkllm").write_bytes(b"GGUF and more")
    assert "was not converted for this runtime" in _why(library, tmp_path / "m.rkllm")


def test_an_older_library_is_refused_before_it_could_crash(old_library: Path, write_model: WriteModel) -> None:
    assert "its parameters are laid out in another way" in _why(old_library, write_model())


def test_files_that_are_none(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.rkllm"
    for spoil, text in ((None, "no such file"), (b"", "it is empty"), (b"version https://git-lfs", "Git LFS pointer")):
        if spoil is not None:
            path.write_bytes(spoil + b"" if not spoil else spoil + b".github.com/spec/v1\noid sha256:0\nsize 9\n")
        with pytest.raises(ModelFormatError, match=text):
            RkllmModel(path, RkllmSettings(library=str(library)))
    with pytest.raises(ModelFormatError, match="not a file"):
        RkllmModel(tmp_path, RkllmSettings(library=str(library)))


def test_no_library(write_model: WriteModel, tmp_path: Path) -> None:
    with pytest.raises(DependencyError, match=r"librkllmrt\.so cannot be loaded"):
        RkllmModel(write_model(), RkllmSettings(library=str(tmp_path / "none.so")))
