"""What librkllmrt.so prints when a model opens: versions and limits, or why it did not open.

The lines were taken from reports of people with boards: rknn-llm issues 129, 156, 235, 278, 406, 416, 420, 522,
rkllama issue 60, ezrknpu issue 4, rk3588_npu_llm_server issue 2 (GitHub).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from chipwise.engine.reason import Reason

_CAUSES = (
    (r"model target_platform does not match",
     "the model is for another chip than this board's ({platform})", "convert it for this board's chip"),
    (r"model version is too old|invalid magic characters|invalid rknn llm model magic",
     "the model was not converted for this runtime ({runtime_version})",
     "convert it with rkllm-toolkit of the same release as librkllmrt.so"),
    (r"max_context\[(\d+)\] must be less than the model's max_context_limit\[(\d+)\]",
     "a context of {0} tokens, and the model was converted for {1}", "open it with a context of at most {1}"),
    (r"Platform error: must be either (.+?)\.",
     "librkllmrt.so runs on {0} only", "run the model with another engine on this board"),
    (r"Query platform error",
     "librkllmrt.so cannot ask the kernel what chip this is (NPU driver {driver_version})",
     "update the kernel's rknpu driver to 0.9.8 or newer, and run as a user that may read the device tree"),
    (r"[Yy]our platform is (\w+)",
     "librkllmrt.so takes this board for {0!r}", "boot a kernel with Rockchip's rknpu driver and its device tree"),
    (r"failed to (?:malloc|allocate) npu memory|[Oo]ut of memory|Cannot allocate memory",
     "the NPU found no memory for the model", "close other models, or take a shorter context or a smaller model"),
    (r"failed to open rkn(?:pu|n) (?:module|device)",
     "the NPU cannot be opened: the kernel has no rknpu driver, or this user may not use it",
     "boot the board maker's kernel with its rknpu driver, and run as a user of the group that owns /dev/dri"),
    (r"load model file error|failed to load model|rknn_init fail|rkllm[_ ]init failed",
     "the runtime could not load the model",
     "look whether the file is whole, and from rkllm-toolkit of the runtime's release"),
)  # fmt: skip


@dataclass(frozen=True)
class InitFacts:
    """What the runtime said when it opened a model; None where it did not say.

    Attributes:
        runtime_version: Release of librkllmrt.so.
        driver_version: Version of the NPU's kernel driver.
        platform: The board's chip as the runtime sees it, e.g. ``RK3588``.
        toolkit_version: The rkllm-toolkit that converted the model.
        target: The chip it was converted for.
        context_limit: Tokens it was converted for at most.
        npu_cores: NPU cores it was converted for.
    """

    runtime_version: str | None = None
    driver_version: str | None = None
    platform: str | None = None
    toolkit_version: str | None = None
    target: str | None = None
    context_limit: int | None = None
    npu_cores: int | None = None


def facts(text: str) -> InitFacts:
    """What a log says of the runtime and the model."""

    def word(pattern: str) -> str | None:
        return match[1] if (match := re.search(pattern, text)) else None

    limit, cores = word(r"max_context_limit: *(\d{1,9})\b"), word(r"npu_core_num: *(\d{1,9})\b")
    return InitFacts(
        runtime_version=word(r"rkllm-runtime version: *(\d+\.\d+\.\d+\w*)"),
        driver_version=word(r"rknpu driver version: *(\d+\.\d+\.\d+\w*)"),
        platform=word(r"version:[^\n]*\bplatform: *(\w+)"),
        toolkit_version=word(r"rkllm-toolkit version: *(\d+\.\d+\.\d+\w*)"),
        target=word(r"target_platform: *(\w+)"),
        context_limit=int(limit) if limit else None,
        npu_cores=int(cores) if cores else None,
    )


def reason(text: str) -> Reason | None:
    """Why a model did not open, by the lines printed; None if no line says so."""
    known = facts(text)
    for pattern, what, remedy in _CAUSES:
        if (match := re.search(pattern, text)) is not None:
            fields = {
                "platform": known.platform or "unknown",
                "runtime_version": known.runtime_version or "of unknown release",
                "driver_version": known.driver_version or "of unknown version",
            }
            return Reason(what.format(*match.groups(), **fields), remedy.format(*match.groups()))
    errors = re.findall(r"^E \w+: *(?:\[[\d:.]+\] *)?(.+)$", text, re.MULTILINE)
    return Reason(f"the runtime says: {errors[-1].strip()[:200]}", None) if errors else None
