from __future__ import annotations

import pytest

from chipwise.toolchain.rknn_remedies import remedy_for


@pytest.mark.parametrize(
    ("what", "remedy"),
    [
        ("failed: ModuleNotFoundError: No module named 'rknn.api.rknn'", "chipwise toolchain doctor rknn"),
        ("the job was ended by SIGKILL (out of memory?), status 137; it wrote no log", "memory"),
        ("the job was stopped after 14400 s; its log ends: I rknn building ...", "--job-timeout"),
        ("failed: raised ValueError: All outputs ['y'] of model are constants, The model is invalid!", "float16"),
        ("failed: raised ValueError: cannot convert float NaN to integer", "65504"),
        ("the job was ended by SIGSEGV, status 139; its log ends: I rknn building ...", "halve it"),
        (
            "the job was ended by SIGABRT; its log ends: E RKNN: quantization scale must be equal to channels",
            "for each",
        ),
        ("failed: returned -1; its log says: E build: Not Support Dtype: 2", "another form"),
    ],
)
def test_a_failure_has_the_remedy_that_fits_it(what: str, remedy: str) -> None:
    assert remedy in remedy_for(what, "another form")
