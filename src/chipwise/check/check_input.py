"""CheckInput: a model, a target, and what the user wants of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import onnx_ir as ir

from chipwise.check.foldable import foldable_nodes
from chipwise.check.recipe_name import RecipeName
from chipwise.model.config import DecoderConfig, EncoderConfig
from chipwise.model.model import Model
from chipwise.target.constraints import Constraints
from chipwise.target.target import Target

# A context nobody asked for, in tokens: enough for commands and short documents.
DEFAULT_CONTEXT = 2048


@dataclass(frozen=True)
class CheckInput:
    """What rules look at.

    Attributes:
        model: The model.
        target: The target.
        graph: The model's graph with types inferred, for an ONNX file; None for a model with a config.
        recipe: The quantization recipe; None if the user named none.
        max_context: The longest context wanted, in tokens; None if the user named none.
        n_streams: Conversations held at once.
        dims: Sizes of the graph's symbolic dimensions that the user gave.
    """

    model: Model
    target: Target
    graph: ir.Model | None = None
    recipe: RecipeName | None = None
    max_context: int | None = None
    n_streams: int = 1
    dims: Mapping[str, int] = field(default_factory=dict)

    @property
    def limits(self) -> Constraints:
        """What the target accepts."""
        return self.target.constraints

    @property
    def config(self) -> DecoderConfig | EncoderConfig | None:
        """The architecture; None for an ONNX file."""
        return self.model.config

    @property
    def decoder(self) -> DecoderConfig | None:
        """The architecture if it is a decoder's."""
        return self.config if isinstance(self.config, DecoderConfig) else None

    @property
    def name(self) -> str:
        """What to call the model where a finding concerns all of it."""
        return self.model.source.name

    @property
    def has_accelerator(self) -> bool:
        """Whether there is something else than a CPU to run on."""
        unit = self.target.accelerator
        return unit is not None and unit.kind != "cpu"

    @property
    def context(self) -> int:
        """The context to reckon with: the one wanted, else what model and chip allow up to 2048 tokens."""
        if self.max_context is not None:
            return self.max_context
        known = [DEFAULT_CONTEXT]
        if self.config is not None:
            known.append(self.config.max_positions)
        if self.limits.context_max_tokens is not None:
            known.append(int(self.limits.context_max_tokens))
        return min(known)

    @cached_property
    def nodes(self) -> tuple[ir.Node, ...]:
        """The graph's nodes that are left when constants are folded, subgraphs' and functions' too."""
        if self.graph is None:
            return ()
        gone = foldable_nodes(self.graph)
        roots: list[ir.Graph | ir.Function] = [self.graph.graph, *self.graph.functions.values()]
        every = (node for root in roots for node in ir.traversal.RecursiveGraphIterator(root))
        return tuple(node for node in every if node not in gone)


def label(node: ir.Node) -> str:
    """What to call a node: its operator and its name, or its first output."""
    name = node.name or (node.outputs[0].name if node.outputs else "")
    return f"{node.op_type} {name}".strip()
