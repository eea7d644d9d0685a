from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.engine.rkllm.init_log import InitFacts, facts, reason

GOOD = """I rkllm: rkllm-runtime version: 1.2.1b1, rknpu driver version: 0.9.8, platform: RK3588
I rkllm: loading rkllm model from ./language_model.rkllm
I rkllm: rkllm-toolkit version: 1.2.1b1, max_context_limit: 4096, npu_core_num: 2, target_platform: RK3588
I rkllm: Enabled cpus: [4, 5, 6, 7]
"""


def test_facts() -> None:
    assert facts(GOOD) == InitFacts("1.2.1b1", "0.9.8", "RK3588", "1.2.1b1", "RK3588", 4096, 2)
    assert facts("") == InitFacts()
    assert reason(GOOD) is None


@pytest.mark.parametrize(
    ("line", "what", "remedy"),
    [
        ("E rkllm: max_context[16384] must be less than the model's max_context_limit[4096]",
         "a context of 16384 tokens, and the model was converted for 4096", "at most 4096"),
        ("The model target_platform does not match!", "for another chip than this board's (unknown)", "convert it"),
        ("Warning: The model version is too old, please use the latest", "not converted for this", "rkllm-toolkit"),
        (": invalid magic characters '\ufffd'\n: error: failed to load model 'x'", "not converted for this", "release"),
        ("E RKNN: [08:48:14.826] invalid rknn llm model magic", "not converted for this", "release"),
        ("Platform error: must be either RK3588, RK3576, RV1126B, or RK3562.  \nYour platform is lite.",
         "runs on RK3588, RK3576, RV1126B, or RK3562 only", "another engine"),
        ("Your platform is unknown", "takes this board for 'unknown'", "rknpu driver"),
        ("Query platform error!", "cannot ask the kernel what chip", "0.9.8"),
        ("failed to malloc npu memory", "found no memory", "shorter context"),
        ("rknn_init fail! ret=-1", "could not load the model", "whole"),
        ("E rkllm: something new", "the runtime says: something new", None),
    ],
)  # fmt: skip
def test_reported_lines_in_words(line: str, what: str, remedy: str | None) -> None:
    found = reason(line)
    assert found is not None
    assert what in found.what
    assert remedy is None if found.remedy is None else remedy and remedy in found.remedy


@given(st.text(max_size=300))
def test_any_text_gives_a_reason_or_none(text: str) -> None:
    facts(text)
    found = reason(text)
    assert found is None or found.what
