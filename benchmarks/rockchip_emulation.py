"""Does emulated arithmetic tell the truth? The same graph, calibration and inputs in Rockchip's simulator beside it.

    python -m benchmarks.rockchip_emulation [MODEL ...]

Needs the toolkit: `chipwise toolchain install rknn`. Graphs are rewritten as `chipwise build` does, but not repaired;
``block_mask`` is not rewritten either, to keep its mask of -10000. Each pair is saved to
results/rockchip_emulation.json when it is done, and one that is there is not run again: delete the file to start over.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

from benchmarks import rockchip
from benchmarks.chip_build import worst
from benchmarks.chip_models import chip_models
from benchmarks.chip_results import Agreement, Compared, RockchipEmulation
from benchmarks.emulation_evidence import EVIDENCE, evidence
from benchmarks.machine import today
from benchmarks.model import ROOT
from benchmarks.results import RESULTS, load, save
from benchmarks.simulator import Arrays, simulate, toolkit_version
from chipwise.build import BuildOptions
from chipwise.build.compared_outputs import compare_outputs
from chipwise.build.graph_candidates import GraphCandidates
from chipwise.build.graph_file import GraphFile, all_float
from chipwise.build.graph_line import read_graph
from chipwise.build.rknn_compiler import quantization
from chipwise.check.infer import infer_types
from chipwise.errors import ChipwiseError
from chipwise.files import write_atomic
from chipwise.model.config import DecoderConfig
from chipwise.model.importer import load_model
from chipwise.quant.fit import fit_recipe
from chipwise.rewrite.decoder_feeds import prompt_feed
from chipwise.rewrite.pass_ import Feed, RewriteContext
from chipwise.rewrite.pipeline import run_passes
from chipwise.rewrite.plan import passes_for
from chipwise.target import load_target

PATH = RESULTS / "rockchip_emulation.json"
PAIRS = (
    ("block", "rk3588", "w8a8"), ("block_mask", "rk3588", "w8a8"), ("block_outliers", "rk3588", "w8a8"),
    ("home_agent", "rk3588", "w8a8"), ("mobile_net", "rk3588", "w8a8"), ("pulse_vad", "rk3588", "w8a8"),
    ("minilm", "rk3588", "w8a8"), ("text_detector", "rk3588", "w8a8"), ("block", "rk3576", "w4a16"),
    ("block_outliers", "rk3576", "w4a16"), ("home_agent", "rk3576", "w4a16"), ("minilm", "rk3576", "w4a16"),
    ("block", "rk3562", "w8a16"),
)  # fmt: skip
_PROOF_SAMPLES = 2


@dataclass(frozen=True)
class Work:
    """A graph, its data, and how its outputs are judged.

    Attributes:
        reference: The graph in float32, as the simulator gets it.
        calibration: What both are quantized with.
        held_out: What both compute.
        judge: From the outputs of one of them, stacked, to how far they agree.
    """

    reference: GraphFile
    calibration: Sequence[Feed]
    held_out: Sequence[Feed]
    judge: Callable[[Arrays], Agreement]


def compare(name: str, chip: str, scheme: str) -> Compared:
    """Both ways of one model in one scheme."""
    target, recipe = load_target(chip), fit_recipe(scheme, load_target(chip))
    with tempfile.TemporaryDirectory() as folder:
        work = _decoder(Path(folder)) if name == "home_agent" else _graph(name, chip, Path(folder))
        try:
            candidates = GraphCandidates(work.reference, target, Path(folder), 1)
            emulated = work.judge(_run(candidates.make(recipe, work.calibration, _quiet), work.held_out))
            made = simulate(work.reference.path, chip, quantization(recipe), work.calibration, work.held_out)
        except ChipwiseError as e:
            return Compared(name, chip, recipe.name, len(work.held_out), None, None, e.what)
        simulated = work.judge(made.outputs)
    return Compared(name, chip, recipe.name, len(work.held_out), emulated, simulated)


def _graph(name: str, chip: str, folder: Path) -> Work:
    model = chip_models()[name.removesuffix("_mask")]()
    options = BuildOptions(str(model.source), chip, folder, "fp16", **{model.data[0]: model.data[1]})
    target = load_target(chip)
    line = read_graph(options, target, load_model(str(model.source)))
    samples, graph = line.samples, line.graph
    if not name.endswith("_mask"):
        context = RewriteContext(tuple(samples.held_out[:_PROOF_SAMPLES]), samples.dims(graph.graph))
        graph = run_passes(graph, passes_for(target), context).model
        infer_types(graph)
    reference = GraphFile.save(graph, folder, "reference", all_float(graph))

    def judge(outputs: Arrays) -> Agreement:
        stacks = [{key: stack[index] for key, stack in outputs.items()} for index in range(len(samples.held_out))]
        return worst(compare_outputs(reference, stacks, samples.held_out, 1, _quiet).outputs)

    return Work(reference, samples.calibration, samples.held_out, judge)


def _decoder(folder: Path) -> Work:
    """The home agent's prefill, on answers of its suite."""
    model = load_model(str(ROOT / "models" / "home_agent"))
    if not isinstance(model.config, DecoderConfig):
        raise SystemExit("home_agent is no decoder")
    prompts, answers = rockchip.texts(model)
    path = rockchip.write_graph(model, model.config, rockchip.OWN_MASK, folder)
    graph = ir.load(path).graph
    names = [str(value.name) for value in graph.inputs]

    def feeds(texts: Sequence[Sequence[int]]) -> list[Feed]:
        made = [prompt_feed(graph, tokens, mask_value=rockchip.OWN_MASK) for tokens in texts]
        return [{name: feed[name] for name in names} for feed in made]

    reference, held_out = GraphFile(path, None), feeds([tokens for _, tokens in answers])
    wanted = _run(reference, held_out)

    def judge(outputs: Arrays) -> Agreement:
        stacks = [{key: outputs[key][index] for key in wanted} for index in range(len(held_out))]
        cosines = worst(compare_outputs(reference, stacks, held_out, 1, _quiet).outputs)
        total = rockchip.next_tokens(answers, list(wanted["logits"]), {"logits": outputs["logits"]})
        return Agreement(cosines.whole, cosines.mean, cosines.min, total.kl_mean_nats, total.top1_agreement)

    return Work(reference, feeds(prompts), held_out, judge)


def _run(graph: GraphFile, feeds: Sequence[Feed]) -> Arrays:
    session = graph.open(1)
    try:
        found = [session.run(feed) for feed in feeds]
    finally:
        session.close()
    return {name: np.stack([one[name] for one in found]) for name in found[0]}


def _quiet(done: int, total: int) -> None:
    return None


def main(names: list[str]) -> int:
    """Measure what is not yet measured and save it."""
    for name, chip, scheme in PAIRS:
        known = load(RockchipEmulation, PATH) if PATH.exists() else RockchipEmulation(today(), toolkit_version(), ())
        done = {(one.model, one.chip, one.scheme.split("_")[0]) for one in known.compared}
        if (names and name not in names) or (name, chip, scheme) in done:
            continue
        found = compare(name, chip, scheme)
        print(found, flush=True)
        result = RockchipEmulation(today(), toolkit_version(), (*known.compared, found))
        save(result, PATH)
        write_atomic(EVIDENCE, evidence(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
