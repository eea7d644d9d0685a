"""GivenGraphs: a model that is run as it came, and the float32 graph of the same weights that it is held against."""

from __future__ import annotations

from collections.abc import Sequence

from chipwise.build.given_file import GivenFile
from chipwise.build.graph_files import GraphFiles
from chipwise.build.graphs import CpuGraphs
from chipwise.quant.recipe import Recipe
from chipwise.report.report import RewriteStep


class GivenGraphs:
    """The reference is chipwise's own graph of the file's weights in float32, on ONNX Runtime.

    Args:
        cpu: Writes the reference.
        given: The file.
    """

    def __init__(self, cpu: CpuGraphs, given: GivenFile) -> None:
        self._cpu = cpu
        self.given = given

    def reference(self) -> GraphFiles:
        """See ``DecoderGraphs.reference``."""
        return self._cpu.reference()

    def prove(self, reference: GraphFiles, prompt: Sequence[int]) -> list[RewriteStep]:
        """See ``DecoderGraphs.prove``: what the file is held against is proven first."""
        return self._cpu.prove(reference, prompt)

    def calibrates(self, recipe: Recipe) -> bool:
        """Nothing is quantized."""
        del recipe
        return False
