"""The part of `chipwise verify` that finds where the damage comes from."""

from __future__ import annotations

from dataclasses import replace

from chipwise.bundle import Bundle
from chipwise.cli.progress import texts_bar
from chipwise.errors import BundleError, InputError
from chipwise.model.tokenizer import Tokenizer
from chipwise.report.attribution import Attribution
from chipwise.report.quality import Quality
from chipwise.report.report import Report
from chipwise.verify.attribution.blame import with_prompts, with_runtime
from chipwise.verify.attribution.decoder_pair import DecoderPair
from chipwise.verify.attribution.measure import attribute
from chipwise.verify.attribution.phase import Text
from chipwise.verify.attribution.texts import answered, worst_prompts
from chipwise.verify.generate import Prompt
from chipwise.verify.run import context_needed, differing, encode_suite
from chipwise.verify.suite import Suite
from chipwise.verify.thresholds import Thresholds

_ENGINE = "onnxruntime"
_THREADS = 2


class Attributing:
    """Two bundles whose graphs have been taken apart, before any case runs: what is wrong with them shows at once.

    Args:
        ours: The bundle that is judged.
        theirs: The reference.
        threads: Threads of a run; None for two.

    Raises:
        InputError: A bundle holds no ONNX decoder, or the two are not of one kind and length.
    """

    def __init__(self, ours: Bundle, theirs: Bundle, threads: int | None) -> None:
        for bundle in (ours, theirs):
            if bundle.manifest.engine.name != _ENGINE:
                raise InputError(
                    f"its engine is {bundle.manifest.engine.name}, whose layers cannot be taken apart",
                    where=str(bundle.path), remedy="attribute a bundle that runs on onnxruntime",
                )  # fmt: skip
        self._ours, self._theirs, self._threads = ours, theirs, threads
        self._pair = DecoderPair(theirs.files, ours.files, threads=threads or _THREADS)

    def added_to(self, report: Report, suite: Suite, thresholds: Thresholds) -> Report:
        """A report with the layers that its damage comes from, on the cases that drifted most.

        Args:
            report: The report of a suite that ran on both.
            suite: The suite.
            thresholds: What the gate asked for.

        Raises:
            InputError: No case fits the graphs that read a text at once.
            RewriteError: ONNX Runtime fails on a part of a graph.
        """
        tokenizer, quality = self._ours.tokenizer, report.quality
        if tokenizer is None or quality is None:
            raise BundleError("no tokenizer in the bundle", where=str(self._ours.path))
        prompts, asked = (encode_suite(suite, tokenizer, bundle.chat_template) for bundle in (self._ours, self._theirs))
        texts = self._texts(worst_prompts(quality, suite.cases, asked, room=self._pair.room), tokenizer)
        with texts_bar(len(texts)) as progress:
            found = attribute(self._pair, texts, progress=progress)
        differ = differing(prompts, asked)
        if differ:
            one, other = (_start(side[differ[0]], tokenizer) for side in (asked, prompts))
            example = f"{suite.cases[differ[0]].id} is {one} to the reference, {other} to the candidate"
            found = with_prompts(found, len(differ), len(prompts), example)
        return replace(report, attribution=_beside_session(found, quality, thresholds))

    def _texts(self, prompts: list[Prompt], tokenizer: Tokenizer) -> list[Text]:
        limit = int(self._theirs.manifest.model.config.get("max_positions", 1 << 31))
        session = self._theirs.open_session(
            len(prompts), min(context_needed(prompts), limit), threads=self._threads, self_test=False
        )
        try:
            return answered(session, prompts, tokenizer.special.eos_ids)
        finally:
            session.close()


def _beside_session(found: Attribution, quality: Quality, thresholds: Thresholds) -> Attribution:
    """The attribution, which blames the runtime where the session does what its graphs do not."""
    own = next((check.kl_mean_nats for check in quality.self_checks if check.session == "candidate"), None)
    if quality.answer is None or own is None:
        return found
    return with_runtime(found, quality.answer.kl_mean_nats, own, thresholds.self_check_candidate_nats)


def _start(prompt: Prompt, tokenizer: Tokenizer, characters: int = 60) -> str:
    text = tokenizer.decode(list(prompt.tokens))
    return repr(text if len(text) <= characters else f"{text[:characters]}...")
