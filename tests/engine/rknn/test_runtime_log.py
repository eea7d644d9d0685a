from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.engine.rknn.runtime_log import driver_version, reason, release, runtime_version

# As printed by lite2 2.3.0 on an rk3588, and what get_sdk_version of 1.5.2 and a newer one return.
OLD = """W rknn-toolkit-lite2 version: 2.3.0
I RKNN: [14:34:00.921] RKNN Runtime Information: librknnrt version: 1.4.0 (a10f100eb@2022-09-09T09:07:14)
I RKNN: [14:34:00.922] RKNN Driver Information: version: 0.9.8
E RKNN: [14:34:00.922] 6, 1
E RKNN: [14:34:00.922] Invalid RKNN model version 6
E RKNN: [14:34:00.922] rknn_init, load model failed!
E Catch exception when init runtime!
"""
SDK = "RKNN VERSION:\n  API: 1.5.2 (71720f3fc@2023-08-21T09:29:52)\n  DRV: 0.7.2\n"
NEWER = (
    "I RKNN: [20:13:42.890] RKNN Runtime Information, librknnrt version: 2.4.2a2 (429f97ae6b@2025-04-09T09:09:27)\n"
    "I RKNN: [20:13:42.890] RKNN Driver Information, version: 0.9.8\n"
)


def why(text: str) -> str:
    found = reason(text, toolkit="2.5.0", chips=("rk3588",), board="rk3576")
    return "" if found is None else f"{found.what}; {found.remedy}"


@pytest.mark.parametrize(
    ("text", "runtime", "driver"),
    [(OLD, "1.4.0", "0.9.8"), (SDK, "1.5.2", "0.7.2"), (NEWER, "2.4.2a2", "0.9.8"), ("", None, None)],
)
def test_versions(text: str, runtime: str | None, driver: str | None) -> None:
    assert (runtime_version(text), driver_version(text)) == (runtime, driver)


def test_an_old_runtime_is_told_with_both_versions() -> None:
    assert why(OLD) == (
        "the board's librknnrt.so 1.4.0 does not know format version 6 of the file, which toolkit 2.5.0 wrote; replace "
        "librknnrt.so on the board by that of Rockchip's SDK 2.5.0 or newer, and use lite2 of that version"
    )
    assert "(of a version that it does not say) does not know format version 6" in why("Invalid RKNN model version 6")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("E RKNN: [1] Invalid RKNN format", "takes the file for no .rknn file"),
        ("parseRKNN: invalid RKNN_MAGIC!\nparseRKNN from buffer: Invalid RKNN fromat!", "takes the file for no .rknn"),
        (
            "The rknn model does not match the RKNPU hardware version!",
            r"for rk3588, and .* this board (rk3576) is none",
        ),
        ("rknn model target platform[0] is RK1806, while current platform is RK3399", "the model is for rk3588"),
        ("E RKNN: [1] failed to open rknpu module, need to insmod rknpu dirver!", "no rknpu driver"),
        ("Exception: Can not find dynamic library on RK3566!", "librknnrt.so is not on this board; put librknnrt.so"),
        ("OSError: /usr/lib64/librknnrt.so: cannot open shared object file: No such", "librknnrt.so is not on this"),
        ("/usr/lib64/librknnrt.so: undefined symbol: rknn_get_sdk_version", "it has no rknn_get_sdk_version"),
        ("Exception: Unsupported run platform: Linux aarch64", "let it read /proc/device-tree/compatible"),
        ("RKNN init failed. error code: RKNN_ERR_MALLOC_FAIL", "no memory for the model"),
        ("Exception: The input[0] need 4dims input, but 3dims input buffer feed.", "an input of another shape"),
        ("rknn_inputs_set, param input size(184) < model input size(200)", "an input of another shape"),
        ("E RKNN: [1] failed to submit!, op id: 1", "did not finish the model in time"),
        ("E RKNN: [14:34:00.922] something new", "the runtime says: something new; None"),
        (
            "E Traceback (most recent call last):\nValueError: odd {braces}",
            "the runtime says: ValueError: odd {braces}",
        ),
    ],
)
def test_reported_lines_in_words(line: str, text: str) -> None:
    for part in text.split(" .* ", 1):
        assert part.removeprefix("r") in why(line)


def test_no_error_is_no_reason() -> None:
    assert why(NEWER) == ""


@given(st.text(max_size=300))
def test_any_text_gives_one_line_or_nothing(text: str) -> None:
    found = reason(text, toolkit="2.5.0", chips=(), board=None)
    assert found is None or found.what


@pytest.mark.parametrize(
    ("version", "numbers"), [("2.4.2a2", (2, 4, 2)), ("2.5.0", (2, 5, 0)), (None, None), ("new", None)]
)
def test_releases(version: str | None, numbers: tuple[int, ...] | None) -> None:
    assert release(version) == numbers
