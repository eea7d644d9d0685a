"""What to do about a failure of rknn-toolkit2, by what it said."""

from __future__ import annotations

import re

# Each was seen with version 2.5.0.
_REMEDIES = (
    (r"(?:ModuleNotFound|Import)Error|cannot open shared object|No such file or directory: '\S*/bin/python",
     "the toolchain is damaged: see `chipwise toolchain doctor rknn`"),
    (r"was stopped after [\d.e+]+ s",
     "give it longer with --job-timeout, or fewer samples"),
    (r"SIGKILL|Cannot allocate memory|MemoryError|std::bad_alloc",
     "close what else takes memory, or build on a machine with more"),
    (r"No space left on device",
     "free some space on the disk of --output"),
    (r"All outputs \[.*\] of model are constants",
     "in float16 a factor became 0 or infinite on the way: `chipwise check` names constants outside its range"),
    (r"cannot convert float NaN to integer",
     "calibration met values that float16 does not hold (65504 at most): look at the samples, or scale the inputs"),
    (r"quantization scale must be equal to channels",
     "if several sizes were listed, build once for each, or with --recipe fp16"),
    (r"SIGSEGV|SIGABRT|SIGBUS|SIGFPE",
     "the toolkit crashed on the graph: halve it to find the operator, and write that in another form; or --emulate"),
)  # fmt: skip


def remedy_for(what: str, otherwise: str) -> str:
    """The remedy for a failed job, from the text of its error; ``otherwise`` for one that is not known."""
    return next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, what)), otherwise)
