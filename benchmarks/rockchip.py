"""Does a model survive Rockchip's own compiler? The home-agent model in rknn-toolkit2's simulator, chip by chip.

    python -m benchmarks.rockchip

Needs the toolkit: `chipwise toolchain install rknn`. The prefill graph of a fixed length is built with a mask of -1e4,
as exporters write it, and with the mask that chipwise writes; both are calibrated on the same queries and simulated on
answers of the suite that were not calibrated on. Writes results/rockchip.json.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import onnxruntime as ort
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from benchmarks.machine import today
from benchmarks.model import ROOT
from benchmarks.results import RESULTS, Rockchip, RockchipBuild, save
from benchmarks.simulator import simulate, toolkit_version
from chipwise.check.infer import infer_types
from chipwise.model.config import DecoderConfig
from chipwise.model.decoder import GraphSpec, build_decoder
from chipwise.model.decoder.spec import DEFAULT_MASK_VALUE
from chipwise.model.importer import load_model
from chipwise.model.model import Model
from chipwise.model.onnx_file_writer import save_graph
from chipwise.report.quality import DriftSummary
from chipwise.rewrite.decoder_feeds import prompt_feed
from chipwise.rewrite.edit import inline_functions
from chipwise.verify.metrics import concatenate, drift, summarise

TOKENS = 96
CASES = 32
_HOME_AGENT = ROOT / "models" / "home_agent"
EXPORTED_MASK = -1e4
# What chipwise's writer takes; `chipwise build` makes it smaller still where the scores measured allow it.
OWN_MASK = DEFAULT_MASK_VALUE
_W8A8 = {"quantized_dtype": "w8a8"}
_W4A16 = {"quantized_dtype": "w4a16", "quantized_method": "group32"}
BUILDS = (
    ("rk3588", "w8a8", _W8A8, EXPORTED_MASK), ("rk3588", "w8a8", _W8A8, OWN_MASK), ("rk3588", "fp16", {}, OWN_MASK),
    ("rk3576", "w8a8", _W8A8, EXPORTED_MASK), ("rk3576", "w8a8", _W8A8, OWN_MASK),
    ("rk3576", "w4a16_g32", _W4A16, OWN_MASK), ("rk3566", "w8a8", _W8A8, OWN_MASK),
    ("rk3562", "w8a8", _W8A8, OWN_MASK), ("rv1126b", "w8a8", _W8A8, OWN_MASK),
)  # fmt: skip

Answer = tuple[int, list[int]]
Logits = npt.NDArray[Any]


def texts(model: Model) -> tuple[list[list[int]], list[Answer]]:
    """Prompts to calibrate with, and answers to compare on as (length of the prompt, all tokens)."""
    tokenizer, template = model.tokenizer, model.chat_template
    if tokenizer is None or template is None:
        raise SystemExit(f"{_HOME_AGENT} has no tokenizer or no template")

    def lines(name: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in (_HOME_AGENT / name).read_text("utf-8").splitlines()]

    asked = [tokenizer.encode(template.render(one["messages"]), add_bos=False) for one in lines("queries.jsonl")]
    answers = []
    for one in lines("suite.jsonl"):
        prompt = tokenizer.encode(template.render(one["messages"]), add_bos=False)
        answers.append((len(prompt), prompt + tokenizer.encode(str(one["expected"]), add_bos=False)))
    calibration = [tokens for tokens in asked if len(tokens) <= TOKENS]
    return calibration[:CASES], [answer for answer in answers if len(answer[1]) <= TOKENS][:CASES]


def write_graph(model: Model, config: DecoderConfig, mask: float, folder: Path) -> Path:
    """The static prefill graph. The toolkit cannot read Constant nodes that hold a plain number: they are lifted."""
    if model.weights is None:
        raise SystemExit(f"{_HOME_AGENT} has no weights")
    graph = build_decoder(config, model.weights, GraphSpec("prefill", TOKENS, 1, TOKENS, TOKENS, mask_value=mask))
    inline_functions(graph)
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(graph)
    infer_types(graph)
    save_graph(graph, folder, "prefill")
    return folder / "prefill.onnx"


def measure(model: Model, chip: str, scheme: str, options: dict[str, str], mask: float) -> RockchipBuild:
    """Build for a chip, simulate, and compare with ONNX Runtime in float32."""
    if not isinstance(model.config, DecoderConfig):
        raise SystemExit(f"{_HOME_AGENT} is no decoder")
    calibration, answers = texts(model)
    with tempfile.TemporaryDirectory() as folder:
        path = write_graph(model, model.config, mask, Path(folder))
        graph = ir.load(path).graph
        session = ort.InferenceSession(str(path))
        names = [value.name for value in session.get_inputs()]
        feeds = [prompt_feed(graph, tokens, mask_value=mask) for _, tokens in answers]
        wanted = [session.run(["logits"], {name: feed[name] for name in names})[0] for feed in feeds]
        known = [prompt_feed(graph, tokens, mask_value=mask) for tokens in calibration]
        made = simulate(path, chip, options, known, feeds)
    total = next_tokens(answers, wanted, made.outputs)
    return RockchipBuild(
        chip=chip, scheme=scheme, mask_value=mask, kl_mean_nats=total.kl_mean_nats, top1_agreement=total.top1_agreement,
        positions=total.positions, size_bytes=made.size_bytes, operators=made.operators,
        cpu_operators=made.cpu_operators, build_s=made.build_s, peak_bytes=made.peak_bytes,
    )  # fmt: skip


def next_tokens(answers: Sequence[Answer], wanted: Sequence[Logits], outputs: Mapping[str, Logits]) -> DriftSummary:
    """Next-token distributions of a candidate against the float graph's, at the tokens of the answers.

    Args:
        answers: What was run.
        wanted: The float graph's logits of each.
        outputs: The candidate's outputs, stacked, the logits among them.
    """
    found = next(array for array in outputs.values() if array.shape[-1] == wanted[0].shape[-1])
    parts = []
    for (start, tokens), ours, theirs in zip(answers, wanted, found, strict=True):
        rows = slice(start - 1, len(tokens) - 1)
        vocab = ours.shape[-1]
        targets = np.array(tokens[start:], np.int64)
        parts.append(drift(ours.reshape(-1, vocab)[rows], theirs.reshape(-1, vocab)[rows].astype(np.float32), targets))
    return summarise(concatenate(parts))


def main() -> int:
    """Measure and save."""
    model = load_model(str(_HOME_AGENT))
    builds = []
    for chip, scheme, options, mask in BUILDS:
        builds.append(measure(model, chip, scheme, options, mask))
        one = builds[-1]
        print(
            f"{chip} {scheme} mask {mask:g}: KL {one.kl_mean_nats:.4f} nats, agreement {one.top1_agreement:.1%}, "
            f"{one.cpu_operators} of {one.operators} operators on the CPU, {one.build_s:.0f} s",
            flush=True,
        )
    save(Rockchip(today(), toolkit_version(), "home_agent", TOKENS, CASES, tuple(builds)), RESULTS / "rockchip.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
