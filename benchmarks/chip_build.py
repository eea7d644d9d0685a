"""One model for one chip: by `chipwise build` as a user runs it, and by the plain toolkit on the file as exported."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks import rockchip
from benchmarks.chip_models import ChipModel
from benchmarks.chip_results import Agreement, ModelBuild
from benchmarks.simulator import Arrays, simulate
from chipwise.build.compared_outputs import compare_outputs
from chipwise.build.graph_file import GraphFile
from chipwise.errors import ChipwiseError
from chipwise.model.importer import load_model
from chipwise.report.report import LayerCosine, Report
from chipwise.rewrite.pass_ import Feed

_PLAIN = {
    "fp16": {},
    "w8a8": {"quantized_dtype": "w8a8"},
    "w8a16": {"quantized_dtype": "w8a16"},
    "w4a16": {"quantized_dtype": "w4a16"},
}  # fmt: skip
"""The toolkit's own defaults: a scale a channel, min and max of the samples."""

_GATE_FAILED = 1
_PLACED = re.compile(r"(\d+) operators on the NPU in \d+ segment\(s\), (?:none|(\d+)) on the CPU")
_PEAK = re.compile(r"(\d+) bytes of memory")


def build_ours(model: ChipModel, chip: str, scheme: str) -> ModelBuild:
    """`chipwise build`, with what its report says."""
    option, data = model.data
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "bundle"
        command = [sys.executable, "-m", "chipwise.cli.main", "build", str(model.source), "--target", chip]
        command += ["--recipe", scheme, f"--{option}", str(data), "--cases", str(model.cases), "--output", str(out)]
        command += [word for name, value in model.fixed.items() for word in ("--fix", f"{name}={value:g}")]
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        built_s = time.perf_counter() - began
        failed = out.with_name("bundle.failed")
        made = failed if done.returncode == _GATE_FAILED and failed.exists() else out
        if not made.exists():
            said = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
            return ModelBuild(model.name, chip, scheme, "chipwise", refused=_plain(said[-1], model, folder))
        report = Report.from_json((made / "report.json").read_bytes(), where="report.json")
        if report.emulates:
            raise SystemExit("the build was emulated: install the toolkit (chipwise toolchain install rknn)")
        size_bytes = sum(path.stat().st_size for path in made.rglob("*.rknn"))
    # A language model has two graphs.
    placed = [(int(npu), int(cpu or 0)) for npu, cpu in _PLACED.findall(report.provenance.get("placement", ""))]
    peak = _PEAK.search(report.provenance.get("toolkit", ""))
    return ModelBuild(
        model.name, chip, scheme, "chipwise", gate="failed" if made == failed else "passed",
        agreement=agreement_of(report), size_bytes=size_bytes,
        npu_operators=sum(npu for npu, _ in placed) if placed else None,
        cpu_operators=sum(cpu for _, cpu in placed) if placed else None, build_s=built_s,
        peak_bytes=int(peak[1]) if peak else None, repaired=_repaired(report),
    )  # fmt: skip


def _repaired(report: Report) -> str:
    kept = [one for one in report.repairs if one.kept]
    words = [one.change for one in kept if one.change != "plain"]
    if kept and kept[-1].float16 and not any("float16" in word for word in words):
        words.append(f"{kept[-1].float16} values in float16")
    return ", ".join(words)


def build_plain(model: ChipModel, chip: str, scheme: str) -> ModelBuild:
    """The toolkit's own defaults on the file as exported, with the same data."""
    if model.name == "home_agent":
        return _decoder_plain(model, chip, scheme)
    samples, fixed = model.samples(chip), {name: np.array(value, np.int64) for name, value in model.fixed.items()}
    calibration, held_out = ([{**one, **fixed} for one in part] for part in (samples.calibration, samples.held_out))
    try:
        made = simulate(model.exported, chip, _PLAIN[scheme], calibration, held_out)
    except ChipwiseError as e:
        return ModelBuild(model.name, chip, scheme, "toolkit", refused=_plain(str(e), model, "/"))
    return ModelBuild(
        model.name, chip, scheme, "toolkit",
        agreement=agreement(model.exported, made.samples(), held_out), size_bytes=made.size_bytes,
        npu_operators=made.operators - made.cpu_operators, cpu_operators=made.cpu_operators, build_s=made.build_s,
        peak_bytes=made.peak_bytes,
    )  # fmt: skip


def _decoder_plain(model: ChipModel, chip: str, scheme: str) -> ModelBuild:
    """The prefill graph with the mask that exporters write, on answers of the suite."""
    made = rockchip.measure(load_model(str(model.source)), chip, scheme, _PLAIN[scheme], rockchip.EXPORTED_MASK)
    return ModelBuild(
        model.name, chip, scheme, "toolkit",
        agreement=Agreement(None, None, None, made.kl_mean_nats, made.top1_agreement), size_bytes=made.size_bytes,
        npu_operators=made.operators - made.cpu_operators, cpu_operators=made.cpu_operators, build_s=made.build_s,
        peak_bytes=made.peak_bytes,
    )  # fmt: skip


def agreement_of(report: Report) -> Agreement:
    """What a report of `chipwise build` says of the outputs, or of a language model's next tokens."""
    if report.quality is not None:
        drift = report.quality.answer or report.quality.prompt
        return (
            Agreement(None, None, None, drift.kl_mean_nats, drift.top1_agreement) if drift else Agreement(*[None] * 3)
        )
    return worst(report.layers)


def agreement(path: Path, found: Iterable[Arrays], feeds: Iterable[Feed]) -> Agreement:
    """A candidate's outputs against those of a float graph."""
    return worst(compare_outputs(GraphFile(path, None), found, list(feeds), 1, lambda done, total: None).outputs)


def worst(outputs: Iterable[LayerCosine]) -> Agreement:
    """The worst output's figures, each on its own."""
    cosines = list(outputs)
    return Agreement(*(min(getattr(one, which) for one in cosines) for which in ("whole", "mean", "min")))


def _plain(message: str, model: ChipModel, folder: str) -> str:
    """A message without this machine's paths."""
    message = message.removeprefix("error: ").replace(str(model.source), model.source.name)
    message = message.replace(str(model.exported), model.exported.name).replace(folder.rstrip("/") + "/", "")
    return re.sub(r"\s+", " ", re.sub(r"(?<![\w.])/[\w./+-]+/", "", message)).strip()
