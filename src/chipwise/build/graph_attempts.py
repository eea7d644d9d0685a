"""GraphAttempts: builds and verifies one attempt after the other, each as a step of the build."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import cached_property

from chipwise.build.attempt import Attempt, Tried
from chipwise.build.compiled_graph import CompiledGraph
from chipwise.build.compiled_trial import judge_compiled
from chipwise.build.graph_candidates import GraphCandidates
from chipwise.build.graph_file import GraphFile
from chipwise.build.graph_trial import GraphTrial, run_graph_trial
from chipwise.build.line import Workplace
from chipwise.build.options import BuildOptions
from chipwise.build.rknn_compiler import RknnCompiler
from chipwise.build.samples import Samples
from chipwise.build.steps import Note
from chipwise.errors import EngineError, RewriteError, ToolchainError
from chipwise.quant.calibration import Progress
from chipwise.quant.seen_ranges import SeenRanges
from chipwise.target import Target


@dataclass
class GraphAttempts:
    """Runs attempts at one graph.

    Attributes:
        options: What the user asked for.
        target: The target.
        reference: The graph in float32 that all are compared with.
        samples: What they are calibrated and verified on.
        compiler: The chip's own toolkit; None where it is not installed, or the target needs none.
        place: Folder and steps.
    """

    options: BuildOptions
    target: Target
    reference: GraphFile
    samples: Samples
    compiler: RknnCompiler | None
    place: Workplace

    def first(self, attempt: Attempt) -> Tried:
        """The plain attempt at a recipe, in two steps.

        Raises:
            ToolchainError: The toolkit failed.
            RewriteError: Nothing can be stored so.
            EngineError: The runtime failed.
        """
        log, name = self.place.log, attempt.recipe.name
        if self._compiles(attempt):
            with log.step(f"compile {name}") as note:
                compiled = self._compiled(attempt, note)
            with log.step(f"verify {name}") as note:
                trial = self._judged(attempt, compiled)
                note.text = f"simulated: {trial.headline()}"
            return Tried(attempt, trial)
        candidate = self.reference
        if attempt.recipe.quantizes:
            with log.step(f"quantize {name}") as note:
                candidate = self._candidates(attempt).make(attempt.recipe, self.samples.calibration, self._progress)
                emulated = f", emulates {candidate.emulates}'s arithmetic on this machine" if candidate.emulates else ""
                note.text = f"{candidate.size_bytes // 1_000_000} MB{emulated}"
        with log.step(f"verify {name}") as note:
            trial = self._verified(attempt, candidate)
            note.text = trial.headline()
        return Tried(attempt, trial)

    def again(self, attempt: Attempt) -> Tried:
        """Another attempt, as one step; one that cannot be built is no reason to stop."""
        with self.place.log.step(f"repair {attempt.recipe.name}") as note:
            try:
                if self._compiles(attempt):
                    trial = self._judged(attempt, self._compiled(attempt, Note()))
                else:
                    made = self._candidates(attempt).make(
                        attempt.recipe, self.samples.calibration, self._progress, attempt.ranges
                    )
                    trial = self._verified(attempt, made)
            except (ToolchainError, RewriteError, EngineError) as e:
                note.text = f"{attempt.change}: {e.what}"
                return Tried(attempt, None, e.what)
            note.text = f"{attempt.change}: {trial.headline()}"
        return Tried(attempt, trial)

    def _compiles(self, attempt: Attempt) -> bool:
        return self.compiler is not None and self.compiler.takes(attempt.recipe)

    def _compiled(self, attempt: Attempt, note: Note) -> CompiledGraph:
        if self.compiler is None:
            raise ValueError("there is no compiler")
        compiled = self.compiler.make(attempt, self.samples, self._progress)
        note.text = (
            f"{compiled.file.file_bytes} bytes for {self.target.chip.name}, {compiled.placed()}; "
            f"the toolkit took {compiled.peak_bytes // 1_000_000} MB"
        )
        return compiled

    def _judged(self, attempt: Attempt, compiled: CompiledGraph) -> GraphTrial:
        return judge_compiled(
            attempt.recipe, self.reference, compiled, self._seen if attempt.recipe.integer_activations else None,
            self.samples, self.options.gate, threads=self._threads, progress=self._progress,
        )  # fmt: skip

    def _verified(self, attempt: Attempt, candidate: GraphFile) -> GraphTrial:
        return run_graph_trial(
            attempt.recipe, self.reference, candidate, self.samples, self.options.gate,
            threads=self._threads, progress=self._progress,
        )  # fmt: skip

    def _candidates(self, attempt: Attempt) -> GraphCandidates:
        folder = self.place.folder
        if attempt.changes:
            # Files of one recipe have one name: those of another attempt must not take their place.
            folder = folder / secrets.token_hex(4)
            folder.mkdir()
        return GraphCandidates(attempt.graph, self.target, folder, self._threads)

    @cached_property
    def _seen(self) -> SeenRanges:
        """What calibration saw of the reference: a compiled graph has no ranges of its own to ask."""
        candidates = GraphCandidates(self.reference, self.target, self.place.folder, self._threads)
        return candidates.seen(self.samples.calibration, self._progress)

    @property
    def _threads(self) -> int:
        return self.options.threads or 2

    @property
    def _progress(self) -> Progress:
        return self.place.log.listener.progress
