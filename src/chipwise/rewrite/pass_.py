"""Pass: one change of a graph that keeps what it computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy.typing as npt
import onnx_ir as ir

Feed = Mapping[str, npt.NDArray[Any]]
"""The inputs of one run, by input name."""


@dataclass(frozen=True)
class Tolerance:
    """How far the outputs may move before a pass counts as wrong.

    An output passes if its largest difference is at most ``max_abs``, or at most ``max_rel`` times the largest
    magnitude it had before. Integers and booleans must be equal.

    Attributes:
        max_rel: Largest difference over the output's largest magnitude.
        max_abs: Largest difference in the output's own unit that never matters.
        cures_nan: Whether a NaN before may be a finite number after (the pass removes a fault).
    """

    max_rel: float = 1e-4
    max_abs: float = 1e-6
    cures_nan: bool = False


EXACT = Tolerance(max_rel=0.0, max_abs=0.0)
"""Not one bit may change."""

ROUNDED = Tolerance(max_rel=1e-5, max_abs=1e-6)
"""The same arithmetic in another order."""


@dataclass(frozen=True)
class RewriteContext:
    """What passes and their proofs run on.

    Attributes:
        samples: Real inputs. Without any, inputs are drawn from the declared shapes, and the proof says so.
        dims: Sizes of symbolic dimensions by name, or by ``input:axis`` for one without a name. fix_shapes sets them,
            and inputs are drawn with them.
        seed: Seed of drawn inputs.
        threads: Threads a run may use.
    """

    samples: tuple[Feed, ...] = ()
    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    threads: int = 2


@dataclass(frozen=True)
class PassResult:
    """What a pass did.

    Attributes:
        model: The rewritten model; the pass may have changed the one it was given, or made another.
        modified: Whether anything that matters changed.
        notes: What was changed and what was left, in short sentences.
    """

    model: ir.Model
    modified: bool
    notes: tuple[str, ...] = ()


class Pass(Protocol):
    """One rewrite. Its docstring numbers the cases it handles; its options are fields of its own.

    A pass keeps the names and the order of graph inputs and outputs. It may change their shapes, and a type where
    its docstring says so. It works on a copy: what it does to the model it is given is dropped if it fails.
    """

    @property
    def name(self) -> str:
        """A short name, e.g. ``mask_constant``."""
        ...

    @property
    def requires(self) -> tuple[str, ...]:
        """Names of passes that must come before it in a pipeline that has both."""
        ...

    @property
    def optional(self) -> bool:
        """Whether the model can do without: a failed optional pass is dropped and noted."""
        ...

    @property
    def tolerance(self) -> Tolerance:
        """How far the outputs may move."""
        ...

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Rewrite the model.

        Raises:
            RewriteError: The model cannot be rewritten as asked.
            InputError: What the user gave (a shape, an opset) does not fit the model.
        """
        ...
