"""Attribution of a trial that failed: which layers its damage comes from."""

from __future__ import annotations

from chipwise.build.given_file import GivenFile
from chipwise.build.graph_files import GraphFiles
from chipwise.build.texts import Texts
from chipwise.build.trial import Trial
from chipwise.errors import ChipwiseError
from chipwise.model.model import Model
from chipwise.report.attribution import Attribution
from chipwise.report.html_attribution import layer_words
from chipwise.report.report import NotRun
from chipwise.verify.attribution.decoder_pair import DecoderPair
from chipwise.verify.attribution.measure import attribute
from chipwise.verify.attribution.texts import answered, worst_prompts
from chipwise.verify.generate import Progress
from chipwise.verify.run import context_needed

# Two graphs in many pieces on the cores that a user gave; a run without a say takes two.
_THREADS = 2
# A build that failed should say so soon; a large model is attributed on fewer texts.
_BUDGET_S = 60.0


def attribute_trial(
    trial: Trial, reference: GraphFiles, model: Model, texts: Texts, *, threads: int, progress: Progress
) -> Attribution | NotRun | None:
    """Where a failed trial's damage comes from, on the cases that drifted most; None of one that did not fail.

    What is wrong with the attribution is no fault of the build: it is told as something that was not run.
    """
    what, tokenizer = "attribution to layers", model.tokenizer
    if trial.passed or trial.candidate is reference or tokenizer is None:
        return None
    if isinstance(trial.candidate, GivenFile):
        return NotRun(what, f"{trial.candidate.engine} shows no values inside")
    if not isinstance(trial.candidate, GraphFiles):
        return NotRun(what, "a vendor's compiled graph cannot be taken apart; build it with --emulate")
    try:
        pair = DecoderPair(reference.files, trial.candidate.files, threads=threads or _THREADS)
        prompts = worst_prompts(trial.quality, texts.cases, texts.prompts, room=pair.room)
        session = reference.open(n_slots=len(prompts), max_context=context_needed(prompts), threads=threads)
        try:
            answers = answered(session, prompts, tokenizer.special.eos_ids)
        finally:
            session.close()
        return attribute(pair, answers, budget_s=_BUDGET_S, progress=progress)
    except ChipwiseError as e:
        return NotRun(what, str(e))


def in_words(found: Attribution | NotRun) -> str:
    """The outcome in a few words."""
    if isinstance(found, NotRun):
        return f"not run: {found.why}"
    return f"most of it from {layer_words(found.culprit)}" if found.faults else "the graphs compute what they should"
