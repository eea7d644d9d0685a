"""Real models through Rockchip's compiler and simulator: models x chips x schemes, and the plain toolkit beside.

    python -m benchmarks.rockchip_models [MODEL ...]

Needs the toolkit: `chipwise toolchain install rknn`. About 40 builds, most of an hour on two cores. Each build is saved
to results/rockchip_models.json when it is done, and one that is there is not run again: delete the file to start over.
"""

from __future__ import annotations

import sys

from benchmarks.chip_build import build_ours, build_plain
from benchmarks.chip_models import chip_models
from benchmarks.chip_results import ModelBuild, ModelWords, RockchipModels
from benchmarks.machine import today
from benchmarks.results import RESULTS, load, save
from benchmarks.simulator import toolkit_version

PATH = RESULTS / "rockchip_models.json"
OURS, BOTH = ("chipwise",), ("chipwise", "toolkit")
# Where the file as exported and the one that chipwise writes are the same, the plain toolkit is run once.
MATRIX: dict[str, tuple[tuple[str, str, tuple[str, ...]], ...]] = {
    "mobile_net": (
        ("rk3588", "fp16", OURS), ("rk3588", "w8a8", BOTH), ("rk3576", "w8a8", OURS), ("rk3576", "w4a16", BOTH),
        ("rk3566", "w8a8", OURS), ("rk3562", "w8a8", OURS), ("rk3562", "w8a16", BOTH), ("rv1126b", "w8a8", OURS),
    ),
    "text_detector": (
        ("rk3588", "fp16", OURS), ("rk3588", "w8a8", BOTH), ("rk3576", "w4a16", BOTH), ("rk3566", "w8a8", OURS),
        ("rk3562", "w8a16", OURS),
    ),
    "minilm": (
        ("rk3588", "fp16", OURS), ("rk3588", "w8a8", BOTH), ("rk3576", "w4a16", BOTH), ("rk3562", "w8a16", BOTH),
    ),
    "pulse_vad": (("rk3588", "fp16", OURS), ("rk3588", "w8a8", BOTH), ("rv1126b", "w8a8", OURS)),
    "silero_vad": (("rk3588", "fp16", BOTH),),
    "home_agent": (("rk3588", "fp16", OURS), ("rk3588", "w8a8", BOTH), ("rk3576", "w4a16", BOTH)),
    "block": (("rk3588", "fp16", OURS), ("rk3588", "w8a8", BOTH), ("rk3576", "w4a16", BOTH), ("rk3562", "w8a16", OURS)),
    "block_outliers": (("rk3588", "w8a8", BOTH),),
}  # fmt: skip


def main(names: list[str]) -> int:
    """Measure what is not yet measured and save it."""
    makers = chip_models()
    if unknown := sorted(set(names) - set(makers)):
        print(f"no model {unknown[0]}; there are {', '.join(makers)}", file=sys.stderr)
        return 2
    for name in names or MATRIX:
        model = makers[name]()
        for chip, scheme, ways in MATRIX[name]:
            for way in ways:
                if (name, chip, scheme, way) in {(b.model, b.chip, b.scheme, b.way) for b in _known().builds}:
                    continue
                build = build_ours(model, chip, scheme) if way == "chipwise" else build_plain(model, chip, scheme)
                print(line(build), flush=True)
                _keep(build, ModelWords(model.name, model.words))
    return 0


def line(build: ModelBuild) -> str:
    """A build in one line."""
    found = build.refused or f"{build.agreement}, {build.cpu_operators} on the CPU, {build.build_s:.0f} s"
    return f"{build.model} {build.chip} {build.scheme} {build.way} {build.gate}: {found}"


def _known() -> RockchipModels:
    return load(RockchipModels, PATH) if PATH.exists() else RockchipModels(today(), toolkit_version(), (), ())


def _keep(build: ModelBuild, words: ModelWords) -> None:
    known = _known()
    models = {one.name: one for one in (*known.models, words)}
    save(RockchipModels(today(), toolkit_version(), tuple(models.values()), (*known.builds, build)), PATH)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
