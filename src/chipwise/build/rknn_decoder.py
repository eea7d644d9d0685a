"""RknnDecoderGraphs: a decoder through Rockchip's own toolkit, repaired where 8 bits would break it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from chipwise.build.compiled_decoder import CompiledDecoder, CompiledPart
from chipwise.build.decode_samples import decode_feeds
from chipwise.build.float16_plan import Aim, Float16Plan, emulated_drift, plan_float16
from chipwise.build.graph_files import GraphFiles
from chipwise.build.portable_graphs import PortableGraphs
from chipwise.build.repaired_decoder import RepairedDecoder, repair_decoder, round_decoder
from chipwise.build.rknn_compiler import quantization, stacks
from chipwise.build.rknn_source import RknnSource, write_source
from chipwise.build.steps import StepLog
from chipwise.engine.onnxruntime.decoder_graph import DecoderGraph
from chipwise.errors import ToolchainError
from chipwise.files import writing
from chipwise.model.rknn_file import read_rknn_file
from chipwise.quant.precision_gates import gated_values
from chipwise.quant.product_groups import product_groups
from chipwise.quant.reach import measure_reach
from chipwise.quant.recipe import Recipe
from chipwise.report.report import RewriteStep
from chipwise.rewrite.decoder_feeds import prompt_feed
from chipwise.rewrite.pass_ import Feed
from chipwise.target import Target
from chipwise.toolchain import Environment, LiveJob, open_job
from chipwise.toolchain.placement import findings_of, placements_of
from chipwise.toolchain.rknn_build import MODEL, WEIGHTLESS, rknn_live_job
from chipwise.toolchain.rknn_log import read_rknn_log
from chipwise.toolchain.rknn_remedies import remedy_for

# Of each graph; a sample of decode holds a whole cache.
_PREFILL_SAMPLES = 32
_DECODE_SAMPLES = 64
_DECODE_BYTES = 1 << 30
_FOUR_BITS = 4
# rk3588: two pieces of 8192 columns stay on the NPU in 8 bits, three do not; in float16 six do.
_PIECES_IN_8_BITS = 2
_REMEDY = "try another --recipe, or measure the chip's arithmetic with --emulate"


@dataclass
class RknnDecoderGraphs:
    """The graphs of one decoder, compiled and simulated by the toolkit.

    Attributes:
        plain: The static graphs as they are.
        environment: The installed toolkit.
        target: The chip.
        aim: What an 8-bit build must reach, for the choice of what stays in float16.
        folder: Where files are written.
        threads: Threads of a run.
        timeout_s: A job of the toolkit that has not compiled its graph after this many seconds is stopped.
        stack: Ends the simulators when the build ends.
        repair: Whether weights may be changed and tensors kept in float16 so that the aim is reached.
    """

    plain: PortableGraphs
    environment: Environment
    target: Target
    aim: Aim
    folder: Path
    threads: int
    timeout_s: float
    stack: ExitStack
    repair: bool = True

    def reference(self) -> GraphFiles:
        """The model in float32, in the same shapes."""
        return self.plain.reference()

    def prove(self, reference: GraphFiles, prompt: Sequence[int]) -> list[RewriteStep]:
        """Hold fixed shapes and the smaller mask against the graph without either, on a prompt."""
        return self.plain.prove(reference, prompt)

    def calibrates(self, recipe: Recipe) -> bool:
        """The toolkit quantizes with samples; only float16 needs none."""
        return recipe.weight_bits < 16

    def compiled(
        self, recipe: Recipe, reference: GraphFiles, calibration: Sequence[Sequence[int]], log: StepLog
    ) -> CompiledDecoder:
        """The compiled pair in a recipe's precision, made in steps of their own.

        Integer activations are first measured by emulation. Where they lose too much, the model is rotated, and the
        products that still cost most stay in float16, with all operators that have no weights.

        Raises:
            InputError: There is nothing to calibrate with.
            RewriteError: The graphs that are handed to the toolkit compute something else.
            ToolchainError: The toolkit failed, or what it made is not what was asked for.
        """
        # The simulators of the recipe before take memory that this one needs.
        self.stack.close()
        decoder, plan = self._planned(recipe, reference, calibration, log)
        with log.step("prepare for the toolkit") as note:
            source = write_source(
                decoder, self.target, f"{recipe.name}.source", self.folder, prompt=calibration[0], threads=self.threads
            )
            samples = self._samples(source, decoder.graphs, calibration) if self.calibrates(recipe) else {}
            note.text = source.steps[-1].note
        rules: dict[str, Sequence[str]] | None = None
        if plan is not None:
            kept = source.product_weights([weight for one in plan.kept for weight in one.group.weights])
            rules = {"op_types": WEIGHTLESS, "weights": kept}
        parts = {}
        for role, path in source.files.files.items():
            with log.step(f"compile {recipe.name} {role}") as note:
                part = parts[role] = self._compile(f"{recipe.name}.{role}", recipe, path, samples.get(role), rules)
                note.text = (
                    f"{part.file.file_bytes} bytes for {self.target.chip.name}, {part.placed()}; "
                    f"the toolkit took {part.job.result.peak_bytes // 1_000_000} MB"
                )
        return CompiledDecoder(parts, source.files.context or 0, decoder.graphs.mask_value, source.steps, plan)

    def _planned(
        self, recipe: Recipe, reference: GraphFiles, calibration: Sequence[Sequence[int]], log: StepLog
    ) -> tuple[RepairedDecoder, Float16Plan | None]:
        whole, progress = RepairedDecoder(self.plain, reference), log.listener.progress
        if not self.repair:
            return whole, None
        if recipe.weight_bits == _FOUR_BITS and recipe.group_size:
            with log.step("round weights"):
                groups, folder = product_groups(self.plain.dynamic()), self.folder / "rounded"
                rounded = round_decoder(
                    whole, groups, calibration, folder, self.threads, progress, group_size=recipe.group_size
                )
            return rounded, None
        if not recipe.integer_activations:
            return whole, None
        with log.step(f"emulate {recipe.name}") as note:
            plain = emulated_drift(self.plain, calibration, self.threads, progress)
            survives = self.aim.met_by(plain)
            note.text = f"as it is {plain.line()}: {'survives' if survives else 'to be repaired'}"
        if survives:
            return whole, None
        with log.step("equalize and rotate") as note:
            repaired = repair_decoder(self.plain, reference, calibration, self.folder / "repaired", self.threads)
            note.text = "; ".join(step.note for step in repaired.steps)
        with log.step("choose float16") as note:
            plan = plan_float16(
                repaired.graphs, calibration, self.aim, self.threads, progress, keep_output=self._wide_output()
            )
            note.text = f"{plan.line()}; {plan.left.line()} left"
        if not recipe.per_channel:
            # One scale for a whole matrix is another grid than the one they would be rounded to.
            return repaired, plan
        with log.step("round weights"):
            folder = self.folder / "rounded"
            rounded = round_decoder(repaired, plan.eight_bits, calibration, folder, self.threads, progress)
        return rounded, plan

    def _wide_output(self) -> bool:
        """Whether the change of layout behind the output layer falls to the CPU in 8 bits, even in pieces."""
        widest = self.target.constraints.out_columns_max
        return widest is not None and self.plain.config.vocab_size > _PIECES_IN_8_BITS * int(widest)

    def _samples(
        self, source: RknnSource, graphs: PortableGraphs, texts: Sequence[Sequence[int]]
    ) -> dict[str, list[Feed]]:
        """What the toolkit takes ranges from: the texts and the tokens that reach furthest."""
        dynamic, files, context = graphs.dynamic(), source.files.files, source.files.context or 0
        texts = [text[:context] for text in texts]
        values = gated_values(product_groups(dynamic))
        reach = measure_reach(dynamic, [graphs.feed(text) for text in texts], values, threads=self.threads)
        prefill = ir.load(files["prefill"]).graph
        whole = reach.within(range(self.plain.prefill_tokens)).of_texts().furthest(_PREFILL_SAMPLES)
        reads, writes = (DecoderGraph(files[role], threads=self.threads) for role in ("prefill", "decode"))
        # The first token of a sequence, which is unlike all others, is never decoded.
        tokens = reach.within(range(1, context)).furthest(self._decode_samples(writes))
        return {
            "prefill": [prompt_feed(prefill, texts[text][: self.plain.prefill_tokens]) for text, _ in whole],
            "decode": decode_feeds(reads, writes, texts, tokens, context=context),
        }

    def _decode_samples(self, decode: DecoderGraph) -> int:
        rows, heads, context, head_dim = decode.info.kv_shape()
        held = 8 * decode.info.layers * heads * head_dim * int(rows or 1) * int(context or 1)
        return max(1, min(_DECODE_SAMPLES, _DECODE_BYTES // held))

    def _compile(
        self,
        stem: str,
        recipe: Recipe,
        source: Path,
        samples: Sequence[Feed] | None,
        rules: Mapping[str, Sequence[str]] | None,
    ) -> CompiledPart:
        job = rknn_live_job(
            source,
            config={"target_platform": self.target.chip.name, **quantization(recipe)},
            calibration=None if samples is None else stacks(ir.load(source).graph, samples),
            float16=rules,
            timeout_s=self.timeout_s,
        )
        try:
            live = self.stack.enter_context(open_job(self.environment, job, keep=self.folder))
            return self._read(stem, source, live)
        except ToolchainError as e:
            raise ToolchainError(
                e.what, where=e.where, remedy=e.remedy or remedy_for(e.what, _REMEDY), log_tail=e.log_tail
            ) from e

    def _read(self, stem: str, source: Path, live: LiveJob) -> CompiledPart:
        result = live.result
        log = read_rknn_log("\n".join(path.read_text("utf-8", "replace") for path in (result.stdout, result.stderr)))
        path = self.folder / f"{stem}.rknn"
        with writing(path):
            shutil.move(result.artifacts[MODEL], path)
        file = read_rknn_file(path)
        if self.target.chip.name not in file.targets:
            raise ToolchainError(
                f"the compiled file is for {', '.join(file.targets) or 'no chip'}", where=f"rknn for {self.target.name}"
            )
        placements = placements_of(log)
        return CompiledPart(path, source, file, live, placements[0] if placements else None, findings_of(log))
