"""Faults of Rockchip's runtime that others have found on boards, where the simulator computes right."""

from __future__ import annotations

from dataclasses import dataclass

from chipwise.engine.known_fault import Symptom
from chipwise.engine.rknn.runtime_log import release
from chipwise.model.rknn_file import RknnFile


@dataclass(frozen=True)
class RuntimeFault:
    """A fault.

    Attributes:
        symptom: What is seen.
        operator: A part of the type of an operator that the model has.
        chips: The chips it was seen on; empty for any.
        text: What was seen, where it is reported, and what helps.
    """

    symptom: Symptom
    operator: str
    chips: frozenset[str]
    text: str


_FAULTS = (
    RuntimeFault(
        "zeros", "SDPAttention", frozenset({"rk3576"}),
        "known: exSDPAttention on rk3576 returned all zeros with runtimes 2.3.2 and 2.4.2a2, rknn-toolkit2 issue 574; "
        "plain MatMul and Softmax were right there",
    ),
    RuntimeFault(
        "not_finite", "Norm", frozenset(),
        "known: a norm's squares pass the largest float16, 65504, rknn-toolkit2 issues 149 and 212; "
        "smaller values in front of the norm help",
    ),
)  # fmt: skip


def explain(symptom: Symptom, file: RknnFile, *, chip: str | None, runtime: str | None) -> str | None:
    """What is known about such outputs of this model on this board; None if nothing is.

    Args:
        symptom: What was seen.
        file: The compiled model.
        chip: The board's chip, if known.
        runtime: Version of its librknnrt, if known.
    """
    known = [fault.text for fault in _FAULTS if fault.symptom == symptom and _fits(fault, file, chip)]
    ours, theirs = release(runtime), release(file.toolkit_version)
    if ours and theirs and ours != theirs:
        known.append(f"toolkit {file.toolkit_version} compiled it, another version than the runtime's")
    if not known:
        return None
    return "; ".join([*known, f"here: {chip or 'unknown chip'}, librknnrt {runtime or 'of unknown version'}"])


def _fits(fault: RuntimeFault, file: RknnFile, chip: str | None) -> bool:
    if fault.chips and chip is not None and chip not in fault.chips:
        return False
    return file.operators is None or any(fault.operator in operator.type for operator in file.operators)
