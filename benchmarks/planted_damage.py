"""Does attribution name the culprit, and does the gate stop what costs, where the damage is known?

    python -m benchmarks.planted_damage [--plantings N] [--seeds N] [--resume]

Plants one damage after the other in models/home_agent and compares with the same model undamaged. Writes
results/planted_damage.json.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.machine import today
from benchmarks.planted_results import PlantedDamage, PlantedRow, SoundRun
from benchmarks.plantings import Ground, Planting, float_graphs, fused, ground, plantings, template_of, write
from benchmarks.results import RESULTS, load, save
from chipwise.engine import Session
from chipwise.engine.registry import get_engine
from chipwise.model.chat_template import ChatTemplate
from chipwise.model.importer import load_model
from chipwise.model.model import Model
from chipwise.model.tokenizer import Tokenizer
from chipwise.report import Verdict
from chipwise.report.attribution import Attribution
from chipwise.report.quality import Quality
from chipwise.rewrite.decoder_feeds import prompt_feed
from chipwise.verify.attribution.blame import with_prompts, with_runtime
from chipwise.verify.attribution.decoder_pair import DecoderPair
from chipwise.verify.attribution.measure import attribute
from chipwise.verify.attribution.texts import answered, worst_prompts
from chipwise.verify.domains import DOMAINS
from chipwise.verify.domains.suite_lines import domain_lines
from chipwise.verify.gate import judge
from chipwise.verify.generate import Prompt
from chipwise.verify.layers import layer_cosines, layer_values
from chipwise.verify.run import context_needed, differing, encode_suite, verify
from chipwise.verify.suite import Suite, read_suite
from chipwise.verify.suite_writer import write_suite
from chipwise.verify.thresholds import Thresholds

MODEL = Path(__file__).parent.parent / "models" / "home_agent"
CASES = 400
MOST_CASES = 800
SEEDS = 20
SEED = 1
# Records as long as the model was trained on.
_RECORD_LINES = 4
_RECORDS = "factory"
_SOUND = "the undamaged model, in other operators than the reference"
_SLOTS = 32
# An answer that goes on for longer than the truth and these is wrong.
_SPARE_TOKENS = 8
_COSINE_PROMPTS = 8
_THREADS = 1
_THRESHOLDS = Thresholds.for_weight_bits(4)

Files = Mapping[str, Path]


@dataclass(frozen=True)
class Bench:
    """The undamaged model, and where things are written.

    Attributes:
        model: The model.
        tokenizer: Its tokenizer.
        template: Its chat template.
        reference: Its graphs in float32, as they are planted in.
        served: The same in ONNX Runtime's operators: the reference that answers.
        ground: What plantings need to know of it.
        folder: Where graphs and suites go.
    """

    model: Model
    tokenizer: Tokenizer
    template: ChatTemplate
    reference: Files
    served: Files
    ground: Ground
    folder: Path

    @classmethod
    def lay_out(cls, folder: Path) -> Bench:
        """Write the reference and calibrate on the model's own queries."""
        model = load_model(str(MODEL))
        if model.tokenizer is None or model.chat_template is None:
            raise SystemExit(f"{MODEL} has no tokenizer or chat template")
        suite = read_suite(MODEL / "suite.jsonl")
        prompts = [prompt.tokens for prompt in encode_suite(suite, model.tokenizer, model.chat_template)[:32]]
        reference, served = write(float_graphs(model), folder, "reference"), write(fused(model), folder, "served")
        return cls(model, model.tokenizer, model.chat_template, reference, served, ground(model, prompts), folder)

    def suite(self, cases: int, seed: int) -> Suite:
        """Cases of all domains, a quarter a dimension; long records of the one domain that the model knows them of."""
        folder = self.folder / f"cases-{cases}-{seed}"
        if folder.exists():
            return read_suite(folder)
        drawn = [line for domain in DOMAINS for line in _lines(domain, cases // len(DOMAINS), seed)]
        lines = [line for line in drawn if line["dimension"] != "long_range"]
        lines += [line for line in _lines(_RECORDS, cases, seed) if line["dimension"] == "long_range"]
        # Answers of like length run side by side: the last to end keeps all of a wave waiting.
        truths = {line["id"]: len(self.tokenizer.encode(line["expected"])) for line in lines if "expected" in line}
        for line in lines:
            line["max_tokens"] = truths[line.get("clean", line["id"])] + _SPARE_TOKENS
        lines.sort(key=lambda line: int(line["max_tokens"]))
        write_suite(folder, folder.name, lines, about="", record_lines=_RECORD_LINES, overwrite=True)
        return read_suite(folder)

    def plant(self, planting: Planting, stem: str) -> Files:
        """The graphs with a planting."""
        graphs = float_graphs(self.model)
        if planting.edit is not None:
            planting.edit(graphs, self.ground)
        return write(graphs, self.folder, stem)

    def open(self, files: Files, prompts: Sequence[Prompt]) -> Session:
        """A session of graphs."""
        options = {"fuse_qdq": False, "threads": _THREADS, "yields": True}
        slots, context = min(_SLOTS, len(prompts)), context_needed(prompts)
        return get_engine("onnxruntime").open(files, n_slots=slots, max_context=context, options=options)


@dataclass(frozen=True)
class Judged:
    """A candidate on some cases.

    Attributes:
        suite: The cases.
        prompts: As the candidate's template puts them.
        asked: As the reference's does.
        quality: What was measured.
        verdicts: What the gate says.
    """

    suite: Suite
    prompts: Sequence[Prompt]
    asked: Sequence[Prompt]
    quality: Quality
    verdicts: Sequence[Verdict]

    @property
    def outcome(self) -> str:
        """``pass``, ``fail`` or ``unclear``."""
        outcomes = {verdict.outcome for verdict in self.verdicts}
        return next(one for one in ("fail", "unclear", "pass") if one in outcomes)


def _lines(domain: str, cases: int, seed: int) -> list[dict[str, Any]]:
    return domain_lines(domain, cases, seed, bare=True, record_lines=_RECORD_LINES)


def judged(bench: Bench, candidate: Files, template: ChatTemplate, cases: int, seed: int) -> Judged:
    """Run a draw of cases on a candidate beside the reference."""
    suite = bench.suite(cases, seed)
    prompts = encode_suite(suite, bench.tokenizer, template)
    asked = encode_suite(suite, bench.tokenizer, bench.template)
    ours, theirs = bench.open(candidate, prompts), bench.open(bench.served, asked)
    try:
        quality = verify(
            suite.cases, prompts, bench.tokenizer, candidate=ours, reference=theirs, reference_prompts=asked
        )
    finally:
        ours.close()
        theirs.close()
    return Judged(suite, prompts, asked, quality, judge(quality, _THRESHOLDS))


def surely_judged(bench: Bench, candidate: Files, template: ChatTemplate) -> Judged:
    """The same with twice the cases while the gate cannot tell."""
    cases = CASES
    while True:
        found = judged(bench, candidate, template, cases, SEED)
        if found.outcome != "unclear" or cases >= MOST_CASES:
            return found
        cases *= 2


def attributed(bench: Bench, candidate: Files, found: Judged) -> Attribution:
    """Where a candidate's damage comes from, as `chipwise verify --attribute` finds it."""
    pair = DecoderPair(bench.reference, candidate, threads=_THREADS)
    prompts = worst_prompts(found.quality, found.suite.cases, found.asked, room=pair.room)
    session = bench.open(bench.served, prompts)
    try:
        texts = answered(session, prompts, bench.tokenizer.special.eos_ids)
    finally:
        session.close()
    result = attribute(pair, texts)
    differ = differing(found.prompts, found.asked)
    result = with_prompts(result, len(differ), len(found.asked), "the templates differ")
    drift, checks = found.quality.answer, found.quality.self_checks
    own = next((check.kl_mean_nats for check in checks if check.session == "candidate"), None)
    if drift is None or own is None:
        return result
    return with_runtime(result, drift.kl_mean_nats, own, _THRESHOLDS.self_check_candidate_nats)


def cosines(bench: Bench, candidate: Files, found: Judged) -> tuple[float, float]:
    """Whole cosines: of the logits, and the lowest of a value between layers."""
    graph = float_graphs(bench.model)["prefill"]
    feeds = [prompt_feed(graph.graph, prompt.tokens) for prompt in found.asked[:_COSINE_PROMPTS]]
    values = [*layer_values(graph), "logits"]
    lines = layer_cosines(bench.reference["prefill"], candidate["prefill"], feeds, names=values, threads=_THREADS)
    return lines[-1].whole, min(line.whole for line in lines)


def measure(bench: Bench, planting: Planting, stem: str) -> PlantedRow:
    """One planting: judged, attributed, and seen by the usual measures."""
    candidate = bench.plant(planting, stem)
    found = surely_judged(bench, candidate, template_of(planting, bench.template))
    culprit = attributed(bench, candidate, found)
    output, layer = cosines(bench, candidate, found)
    drift = found.quality.answer
    return PlantedRow(
        planted=planting.words,
        culprit=planting.culprit,
        named=culprit.culprit,
        kl_nats=drift.kl_mean_nats if drift else None,
        lost_points={row.dimension: 100 * row.drop for row in found.quality.matrix if row.label == "all"},
        cases=len(found.quality.cases),
        verdict=found.outcome,
        failed_by=tuple(verdict.metric for verdict in found.verdicts if verdict.outcome == "fail"),
        output_cosine=output,
        layer_cosine=layer,
        perplexity_ratio=drift.perplexity_ratio if drift else None,
    )


def sound(bench: Bench, seeds: int, before: SoundRun) -> Iterator[SoundRun]:
    """The undamaged model on other cases a seed; what is known so far after each."""
    run = before
    for seed in range(len(before.verdicts), seeds):
        found = judged(bench, bench.reference, bench.template, CASES, 1000 + seed)
        kl_nats = found.quality.answer.kl_mean_nats if found.quality.answer else 0.0
        run = replace(run, verdicts=(*run.verdicts, found.outcome), kl_nats=(*run.kl_nats, kl_nats))
        print(f"{run.candidate}, seed {seed}: {found.outcome}, KL {kl_nats:.3g} nats", flush=True)
        yield run


def main() -> int:
    """Measure and save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--plantings", type=int, help="only the first so many")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="draws of cases on the undamaged model")
    parser.add_argument("--resume", action="store_true", help="keep what a run that broke off has measured")
    args = parser.parse_args()
    path = RESULTS / "planted_damage.json"
    found = PlantedDamage(today(), MODEL.name, (), (SoundRun(_SOUND, CASES),))
    if args.resume and path.exists():
        found = load(PlantedDamage, path)
    known = {row.planted: row for row in found.rows}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench.lay_out(Path(folder))
        for number, planting in enumerate(list(plantings(bench.ground.config.n_layers))[: args.plantings]):
            if planting.words not in known:
                row = measure(bench, planting, f"planted{number}")
                print(row, flush=True)
                found = replace(found, date=today(), rows=(*found.rows, row))
                save(found, path)
        for run in sound(bench, args.seeds, found.sound[0]):
            found = replace(found, date=today(), sound=(run,))
            save(found, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
