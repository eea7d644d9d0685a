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
import time
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from benchmarks.machine import today
from benchmarks.model import ROOT
from benchmarks.results import RESULTS, Rockchip, RockchipBuild, save
from chipwise.check.infer import infer_types
from chipwise.model.config import DecoderConfig
from chipwise.model.decoder import GraphSpec, build_decoder
from chipwise.model.decoder.spec import DEFAULT_MASK_VALUE
from chipwise.model.importer import load_model
from chipwise.model.model import Model
from chipwise.model.onnx_file_writer import save_graph
from chipwise.quant.decoder_feeds import prompt_feed
from chipwise.rewrite.edit import inline_functions
from chipwise.toolchain import Environment, default_root, get_toolchain, run_job
from chipwise.toolchain.placement import placements_of
from chipwise.toolchain.rknn_build import rknn_build_job
from chipwise.toolchain.rknn_log import read_rknn_log
from chipwise.verify.metrics import concatenate, drift, summarise

TOKENS = 96
CASES = 32
_HOME_AGENT = ROOT / "models" / "home_agent"
_EXPORTED_MASK = -1e4
# What chipwise's writer takes; `chipwise build` makes it smaller still where the scores measured allow it.
_OWN_MASK = DEFAULT_MASK_VALUE
_W8A8 = {"quantized_dtype": "w8a8"}
_W4A16 = {"quantized_dtype": "w4a16", "quantized_method": "group32"}
BUILDS = (
    ("rk3588", "w8a8", _W8A8, _EXPORTED_MASK), ("rk3588", "w8a8", _W8A8, _OWN_MASK), ("rk3588", "fp16", {}, _OWN_MASK),
    ("rk3576", "w8a8", _W8A8, _EXPORTED_MASK), ("rk3576", "w8a8", _W8A8, _OWN_MASK),
    ("rk3576", "w4a16_g32", _W4A16, _OWN_MASK), ("rk3566", "w8a8", _W8A8, _OWN_MASK),
    ("rk3562", "w8a8", _W8A8, _OWN_MASK), ("rv1126b", "w8a8", _W8A8, _OWN_MASK),
)  # fmt: skip

Answer = tuple[int, list[int]]


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
        job = rknn_build_job(
            path,
            config={"target_platform": chip, **options},
            calibration=[np.stack([feed[name] for feed in known]) for name in names] if options else None,
            inputs=[np.stack([feed[name] for feed in feeds]) for name in names],
        )
        began = time.perf_counter()
        with run_job(Environment(get_toolchain("rknn"), default_root()), job) as done:
            built_s = time.perf_counter() - began
            arrays = np.load(done.folder / "outputs.npz")
            found = next(arrays[key] for key in arrays.files if arrays[key].shape[-1] == wanted[0].shape[-1])
            size_bytes, peak_bytes = (done.folder / "model.rknn").stat().st_size, done.peak_bytes
            log = read_rknn_log(done.stdout.read_text("utf-8", "replace") + done.stderr.read_text("utf-8", "replace"))
    (placement,) = placements_of(log)
    parts = []
    for (start, tokens), ours, theirs in zip(answers, wanted, found, strict=True):
        rows = slice(start - 1, len(tokens) - 1)
        vocab = ours.shape[-1]
        targets = np.array(tokens[start:], np.int64)
        parts.append(drift(ours.reshape(-1, vocab)[rows], theirs.reshape(-1, vocab)[rows].astype(np.float32), targets))
    total = summarise(concatenate(parts))
    operators = sum(len(segment.layers) for segment in placement.segments)
    return RockchipBuild(
        chip=chip, scheme=scheme, mask_value=mask, kl_mean_nats=total.kl_mean_nats, top1_agreement=total.top1_agreement,
        positions=total.positions, size_bytes=size_bytes, operators=operators,
        cpu_operators=len(placement.cpu_operators), build_s=built_s, peak_bytes=peak_bytes,
    )  # fmt: skip


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
    toolkit = "rknn-toolkit2 " + next(
        pin.version for step in get_toolchain("rknn").steps for pin in step.pins if pin.package == "rknn-toolkit2"
    )
    save(Rockchip(today(), toolkit, "home_agent", TOKENS, CASES, tuple(builds)), RESULTS / "rockchip.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
