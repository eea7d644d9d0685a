"""ComputeUnit: one kind of core on a chip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from chipwise.target.quantity import Quantity
from chipwise.target.units import check_fields

UnitKind = Literal["cpu", "gpu", "npu", "dla", "dsp"]
Dtype = Literal["int4", "int8", "int16", "fp16", "bf16", "tf32", "fp32"]


@dataclass(frozen=True)
class ComputeUnit:
    """A group of equal cores.

    Attributes:
        name: Its name on this chip, e.g. ``npu`` or ``cortex-a76``.
        kind: What it is.
        count: Cores of this kind; None if unknown.
        clock_hz: The highest clock.
        macs_per_cycle: Multiply-accumulates a cycle and core, by data type.
        peak_ops: Operations a second of all cores together as the maker states them, by data type, dense.
        sparse_peak_ops: The same with structured sparsity, which ordinary models do not have.
        features: Instruction sets that matter, as Linux names them.
        note: What else there is to know.
    """

    name: str
    kind: UnitKind
    count: Quantity | None = None
    clock_hz: Quantity | None = None
    macs_per_cycle: Mapping[Dtype, Quantity] = field(default_factory=dict)
    peak_ops: Mapping[Dtype, Quantity] = field(default_factory=dict)
    sparse_peak_ops: Mapping[Dtype, Quantity] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        """Hold the units."""
        check_fields(self)

    def ops_per_cycle(self, dtype: Dtype) -> float | None:
        """Operations a cycle and core (a multiply-accumulate is two); None if unknown."""
        macs = self.macs_per_cycle.get(dtype)
        return None if macs is None else 2 * macs.value

    def ops_per_s(self, dtype: Dtype) -> float | None:
        """Dense operations a second of all cores, as stated or else from cores and clock; None if unknown."""
        if dtype in self.peak_ops:
            return self.peak_ops[dtype].value
        per_cycle = self.ops_per_cycle(dtype)
        if per_cycle is None or self.count is None or self.clock_hz is None:
            return None
        return per_cycle * self.count.value * self.clock_hz.value
