"""RuntimeLog: what Rockchip's runtime printed, in words.

The lines were taken from reports of people with boards: rknn-toolkit2 issues 16, 36, 254, 281, 394, 399, 472,
rknn_model_zoo issues 231 and 289, rknpu2 issue 25 (airockchip and rockchip-linux on GitHub).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from chipwise.engine.reason import Reason

_RUNTIME = re.compile(r"(?:librknnrt version|\bAPI): *(?:librknnrt version: *)?(\d+\.\d+\.\d+\w*)")
_DRIVER = re.compile(r"(?:RKNN Driver Information[:,] version|\bDRV): *(?:[a-z_ ]*version: *)?(\d+\.\d+\.\d+\w*)")
_TIME = re.compile(r"^E (?:RKNN: \[[\d:.]+\] )?")

# Pattern, what it means, what to do. {runtime}, {toolkit}, {chips} and {board} are filled in; {0} is the first group.
_CAUSES = (
    (r"Invalid RKNN model version (\d+)",
     "the board's librknnrt.so {runtime} does not know format version {0} of the file, which toolkit {toolkit} wrote",
     "replace librknnrt.so on the board by that of Rockchip's SDK {toolkit} or newer, and use lite2 of that version"),
    (r"Invalid RKNN form?at|[Ii]nvalid RKNN_MAGIC|parseRKNN",
     "the board's librknnrt.so {runtime} takes the file for no .rknn file (toolkit {toolkit} wrote it)",
     "replace librknnrt.so on the board by that of Rockchip's SDK {toolkit} or newer"),
    (r"does not match the RKNPU hardware|target platform\S* .*while current platform|RKNN_ERR_\w+_UNMATCH",
     "the model is for {chips}, and the runtime says that this board ({board}) is none",
     "build it for this board's chip"),
    (r"failed to open rkn(?:pu|n) (?:module|device)",
     "the NPU cannot be opened: the kernel has no rknpu driver, or this user may not use it",
     "boot the board maker's kernel with its rknpu driver, and run as a user of the group that owns /dev/dri"),
    (r"Can not find dynamic library|librknn\w*\.so\S*: cannot open shared object",
     "librknnrt.so is not on this board",
     "put librknnrt.so of Rockchip's SDK {toolkit} into /usr/lib"),
    (r"undefined symbol: (\w+)",
     "the board's librknnrt.so is older than rknn-toolkit-lite2: it has no {0}",
     "replace it by that of the same version"),
    (r"Unsupported run platform",
     "rknn-toolkit-lite2 cannot tell what board this is",
     "let it read /proc/device-tree/compatible (a container hides it unless it is mounted)"),
    (r"RKNN_ERR_MALLOC_FAIL|(?:failed to |fail to )(?:malloc|allocate)|[Oo]ut of memory",
     "the NPU found no memory for the model",
     "close other models, or open it in fewer contexts"),
    (r"RKNN_ERR_TIMEOUT|job timeout|failed to submit",
     "the NPU did not finish the model in time",
     "update the kernel's NPU driver, and see dmesg for lines of RKNPU"),
    (r"does not support simulator|has no attribute 'format'",
     "rknn-toolkit-lite2 runs on a Rockchip board only",
     "run it on the board"),
    (r"need (\d)dims input, but (\d)dims|input size\(\d+\) < model input size|rknn_set_input_shapes error",
     "the runtime takes an input of another shape",
     "feed the shapes that `chipwise inspect` shows"),
)  # fmt: skip


def runtime_version(text: str) -> str | None:
    """The version of librknnrt that a log or ``get_sdk_version`` names, e.g. ``2.3.2``; None if none."""
    return match[1] if (match := _RUNTIME.search(text)) else None


def driver_version(text: str) -> str | None:
    """The version of the NPU's driver that a log or ``get_sdk_version`` names; None if none."""
    return match[1] if (match := _DRIVER.search(text)) else None


def reason(text: str, *, toolkit: str, chips: Sequence[str], board: str | None) -> Reason | None:
    """What a log says of a failure; None if it holds no error.

    Args:
        text: What was printed while the call ran.
        toolkit: The toolkit that wrote the file.
        chips: The chips the file is for.
        board: This board's chip, if known.
    """
    runtime = runtime_version(text)
    for pattern, what, remedy in _CAUSES:
        if (match := re.search(pattern, text)) is not None:
            facts = {
                "runtime": runtime or "(of a version that it does not say)",
                "toolkit": toolkit,
                "chips": ", ".join(chips) or "no chip",
                "board": board or "unknown",
            }
            return Reason(what.format(*match.groups(), **facts), remedy.format(**facts))
    errors = [line for line in text.splitlines() if line.startswith("E ") and "Traceback" not in line]
    last = [line for line in text.splitlines() if re.match(r"\w*(?:Error|Exception): ", line)]
    for line in (last or errors)[-1:]:
        return Reason(f"the runtime says: {_TIME.sub('', line).strip()[:200]}", None)
    return None


def release(version: str | None) -> tuple[int, ...] | None:
    """The numbers of a version, for comparison: ``2.4.2a2`` is (2, 4, 2); None if it has none."""
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", version or "")
    return tuple(int(part) for part in match.groups()) if match else None
