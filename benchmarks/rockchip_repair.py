"""Does a repair bring back what 8 bits lose on a Rockchip chip? Two blocks with known faults, in its simulator.

    python -m benchmarks.rockchip_repair

Needs the toolkit: `chipwise toolchain install rknn`. Writes results/rockchip_repair.json.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime as ort

from benchmarks.blocks import MASKED, OUTLIERS, WIDTH, Block, draw_samples, write_block
from benchmarks.machine import today
from benchmarks.repair_results import RepairCase, RepairRow, RockchipRepair
from benchmarks.results import RESULTS, save
from chipwise.build import BuildOptions, build
from chipwise.report.repair import KeptInFloat16
from chipwise.report.report import Report
from chipwise.toolchain import Environment, default_root, get_toolchain, run_job
from chipwise.toolchain.rknn_build import rknn_build_job
from chipwise.verify.cosine import ChannelCosine

CHIP, SCHEME = "rk3588", "w8a8"
SAMPLES = 24
HELD_OUT = SAMPLES // 3  # as a build shares them out
CASES = (
    ("One layer whose causal mask is -10000.", MASKED, 0.999),
    (
        "Two layers with a few channels 30 times larger behind norms, in keys, values and gated products, read by "
        "weights 30 times smaller.",
        OUTLIERS, 0.99,
    ),
    ("The same, with more asked for.", OUTLIERS, 0.996),
)  # fmt: skip


def plain(path: Path, samples: np.ndarray) -> RepairRow:
    """The toolkit alone, with its defaults."""
    config = {"target_platform": CHIP, "quantized_dtype": SCHEME}
    held, calibration = samples[:HELD_OUT], samples[HELD_OUT:]
    session = ort.InferenceSession(str(path))
    wanted = np.stack([session.run(["y"], {"x": x})[0] for x in held])
    job = rknn_build_job(path, config=config, calibration=[calibration], inputs=[held])
    with run_job(Environment(get_toolchain("rknn"), default_root()), job) as done:
        with np.load(done.artifacts["outputs.npz"]) as file:
            found = file["arr_0"]
        size_bytes = done.artifacts["model.rknn"].stat().st_size
    cosine = ChannelCosine(WIDTH)
    cosine.add(wanted, found)
    total = cosine.result("y")
    return RepairRow("the toolkit alone", total.whole, total.mean, False, size_bytes, 0)


def rows(report: Report) -> tuple[RepairRow, ...]:
    """What chipwise tried; the plain build alone where that passed."""
    if report.repairs:
        return tuple(
            RepairRow(one.change, one.output_cosine, one.channel_cosine, one.kept, one.size_bytes, one.float16)
            for one in report.repairs
        )
    (output,) = report.layers
    note = next(step.note for step in report.steps if step.name.startswith("compile"))
    passes = [step.name for step in report.rewrites if step.modified]
    return (RepairRow(f"plain, after {', '.join(passes)}", output.whole, output.mean, True, int(note.split()[0]), 0),)


def cost(kept: KeptInFloat16) -> str:
    """A value kept in float16 and what it costs, in words."""
    cycles = "cycles not estimated" if kept.extra_cycles is None else f"{kept.extra_cycles:+} cycles"
    return f"`{kept.name}` +{kept.extra_bytes} bytes, {cycles}"


def measure(words: str, block: Block, goal: float, folder: Path) -> RepairCase:
    """Both builds of a block."""
    path = write_block(folder / "block.onnx", block)
    samples = draw_samples(SAMPLES)
    np.savez(folder / "samples.npz", x=samples[:, 0])
    first = plain(path, samples)
    gate = {"output_cosine": goal, "channel_cosine": goal}
    options = BuildOptions(
        str(path), CHIP, folder / "bundle", SCHEME, samples=folder / "samples.npz", gate=gate, overwrite=True
    )
    report = build(options).report
    return RepairCase(
        words, goal, report.holds, (first, *rows(report)), tuple(cost(one) for one in report.kept_float16)
    )


def main() -> int:
    """Measure and save."""
    cases = []
    for words, block, goal in CASES:
        with tempfile.TemporaryDirectory() as folder:
            cases.append(measure(words, block, goal, Path(folder)))
        for row in cases[-1].rows:
            print(row, flush=True)
    pins = [pin for step in get_toolchain("rknn").steps for pin in step.pins if pin.package == "rknn-toolkit2"]
    toolkit = f"rknn-toolkit2 {pins[0].version}"
    save(RockchipRepair(today(), toolkit, CHIP, SCHEME, HELD_OUT, tuple(cases)), RESULTS / "rockchip_repair.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
