"""DecoderGraphs: who writes a decoder's graphs for a target."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from chipwise.build.chip_toolchain import installed_toolchain
from chipwise.build.float16_plan import Aim
from chipwise.build.given_file import given_file
from chipwise.build.given_graphs import GivenGraphs
from chipwise.build.graph_files import GraphFiles
from chipwise.build.graphs import CpuGraphs
from chipwise.build.options import BuildOptions
from chipwise.build.portable_graphs import PortableGraphs
from chipwise.build.portable_shape import PortableShape
from chipwise.build.rknn_decoder import RknnDecoderGraphs
from chipwise.build.texts import Texts
from chipwise.build.trial import CALIBRATION_ANSWER_TOKENS
from chipwise.errors import ModelFormatError
from chipwise.model.config import DecoderConfig
from chipwise.model.model import Model
from chipwise.quant.calibration import Progress
from chipwise.quant.recipe import Recipe
from chipwise.report.report import RewriteStep
from chipwise.target import Target
from chipwise.verify.thresholds import Thresholds

_INT8 = 8


class DecoderGraphs(Protocol):
    """Writes the graphs of one decoder for one target."""

    def reference(self) -> GraphFiles:
        """The model in float32, in the shapes of the target. Called once, before anything else."""
        ...

    def prove(self, reference: GraphFiles, prompt: Sequence[int]) -> list[RewriteStep]:
        """What was rewritten, proven equal on a prompt."""
        ...

    def calibrates(self, recipe: Recipe) -> bool:
        """Whether a candidate of this recipe looks at calibration texts."""
        ...

    def candidate(
        self, recipe: Recipe, reference: GraphFiles, calibration: Sequence[Sequence[int]], *, progress: Progress
    ) -> GraphFiles:
        """The model in a recipe's precision."""
        ...


def graphs_for(
    options: BuildOptions,
    target: Target,
    model: Model,
    config: DecoderConfig,
    texts: Texts,
    context: int,
    folder: Path,
    stack: ExitStack,
) -> DecoderGraphs | RknnDecoderGraphs | GivenGraphs:
    """Fused graphs for CPUs; for chips what their toolkit compiles, or static graphs that emulate the chip.

    If the user named an engine it is given the file itself, held against the fused graphs.

    ``stack`` ends the toolkit's simulators.

    Raises:
        InputError: No context that the target takes is that short.
        ModelFormatError: The model has no weights.
    """
    if model.weights is None:
        raise ModelFormatError("no weights", where=str(model.source.path))
    if target.engine == "onnxruntime":
        cpu = CpuGraphs(config, model.weights, context, folder, target=target, threads=options.threads)
        return cpu if options.engine is None else GivenGraphs(cpu, given_file(model, config, options.engine))
    prompts = [len(tokens) for tokens in texts.calibration] + [len(prompt.tokens) for prompt in texts.prompts]
    contexts = [len(tokens) + CALIBRATION_ANSWER_TOKENS for tokens in texts.calibration]
    contexts += [prompt.context for prompt in texts.prompts]
    shape = PortableShape.choose(target, prompts, contexts, limit=context, asked=options.max_context is not None)
    plain = PortableGraphs(
        config, model.weights, shape, folder, target=target, prompts=texts.calibration, threads=options.threads
    )
    toolchain = installed_toolchain(options, target)
    if toolchain is None:
        return plain
    wanted = Thresholds.for_weight_bits(_INT8).with_overrides(texts.gate).with_overrides(options.gate)
    aim = Aim(wanted.kl_mean_nats, wanted.top1_agreement)
    return RknnDecoderGraphs(
        plain, toolchain, target, aim, folder, options.threads or 2, options.job_timeout_s, stack, options.repair
    )
