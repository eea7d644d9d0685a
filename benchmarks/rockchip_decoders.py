"""Does a language model keep its answers on Rockchip's chips? Compiled by rknn-toolkit2, answered in its simulator.

    python -m benchmarks.rockchip_decoders [NAME ...]

Needs the toolkit: `chipwise toolchain install rknn`. The home-agent model runs its whole suite; SmolLM2-135M answers
general queries. Given names (see BUILDS) run only those; the others keep their last result. SmolLM2 takes half an hour
and 5 GB a build. Writes results/rockchip_decoders.json.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.decoder_results import DecoderBuild, KeptProducts, RockchipDecoders
from benchmarks.machine import today
from benchmarks.model import ROOT, smollm2
from benchmarks.results import RESULTS, BuildStep, load, save
from chipwise.report.report import Report
from chipwise.toolchain import get_toolchain

OUT = RESULTS / "rockchip_decoders.json"
_HOME_AGENT = ROOT / "models" / "home_agent"
_SUITE = ("--queries", str(_HOME_AGENT / "queries.jsonl"), "--suite", str(_HOME_AGENT / "suite.jsonl"))
_EVERY_CASE = ("--cases", "1000")


@dataclass(frozen=True)
class Wanted:
    """A build: the model, None for SmolLM2, and what `chipwise build` is told."""

    model: str | None
    chip: str
    recipe: str
    options: tuple[str, ...]

    @property
    def repaired(self) -> bool:
        """Whether chipwise may repair."""
        return "--no-repair" not in self.options


BUILDS = {
    "home_agent-rk3588-w8a8": Wanted(str(_HOME_AGENT), "rk3588", "w8a8", (*_SUITE, *_EVERY_CASE)),
    "home_agent-rk3576-w4a16_g32": Wanted(str(_HOME_AGENT), "rk3576", "w4a16_g32", (*_SUITE, "--cases", "32")),
    "smollm2-rk3588-w8a8": Wanted(None, "rk3588", "w8a8", ("--cases", "32", "--gate", "kl_mean_nats=0.02")),
    "smollm2-rk3588-w8a8-plain": Wanted(None, "rk3588", "w8a8", ("--cases", "32", "--no-repair")),
    "smollm2-rk3576-w4a16_g32": Wanted(None, "rk3576", "w4a16_g32", ("--cases", "32")),
}


def measure(wanted: Wanted) -> DecoderBuild:
    """Build into a folder that is thrown away, and read the report.

    Raises:
        subprocess.CalledProcessError: The build ended with another code than 0 or 1.
    """
    model = wanted.model or str(smollm2())
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        out = Path(folder) / "bundle"
        command = [
            sys.executable, "-m", "chipwise.cli.main", "build", model, "--target", wanted.chip,
            "--recipe", wanted.recipe, "--output", str(out), *wanted.options,
        ]  # fmt: skip
        done = subprocess.run(command, check=False)
        if done.returncode not in (0, 1):
            raise subprocess.CalledProcessError(done.returncode, command)
        made = out if out.is_dir() else out.with_name(f"{out.name}.failed")
        report = Report.from_json((made / "report.json").read_bytes(), where=str(made))
        size_bytes = sum(path.stat().st_size for path in made.rglob("*.rknn"))
    return _read(wanted, report, size_bytes)


def _read(wanted: Wanted, report: Report, size_bytes: int) -> DecoderBuild:
    quality = report.quality
    if quality is None or quality.answer is None:
        raise SystemExit("error: the report holds no comparison")
    exact = next((one for one in quality.fidelity if one.label == "all"), None)
    kept = [finding for finding in report.findings if finding.rule == "kept_in_float16"]
    return DecoderBuild(
        model=report.model,
        chip=wanted.chip,
        recipe=wanted.recipe,
        repaired=wanted.repaired,
        outcome=report.outcome,
        cases=len(quality.cases),
        exact=None if exact is None else exact.candidate,
        exact_reference=None if exact is None else exact.reference,
        kl_mean_nats=quality.answer.kl_mean_nats,
        top1_agreement=quality.answer.top1_agreement,
        size_bytes=size_bytes,
        placement=report.provenance["placement"],
        kept_words=report.provenance["kept in float16"],
        kept=tuple(KeptProducts(one.where, f"{one.measured}; {one.message}") for one in kept),
        steps=tuple(BuildStep(step.name, step.duration_s, step.peak_bytes, step.note) for step in report.steps),
    )


def main() -> int:
    """Measure and save, one build after the other."""
    names = sys.argv[1:] or list(BUILDS)
    unknown = [name for name in names if name not in BUILDS]
    if unknown:
        print(f"error: no build {unknown[0]!r}; there are {', '.join(BUILDS)}", file=sys.stderr)
        return 2
    (ROOT / "build").mkdir(exist_ok=True)
    known = {_key(one): one for one in load(RockchipDecoders, OUT).builds} if OUT.exists() else {}
    version = next(
        pin.version for step in get_toolchain("rknn").steps for pin in step.pins if pin.package == "rknn-toolkit2"
    )
    for name in names:
        found = measure(BUILDS[name])
        known[_key(found)] = found
        print(
            f"{name}: KL {found.kl_mean_nats:.4f} nats, agreement {found.top1_agreement:.1%}, kept {found.kept_words}",
            flush=True,
        )
        save(RockchipDecoders(today(), f"rknn-toolkit2 {version}", tuple(known.values())), OUT)
    return 0


def _key(build: DecoderBuild) -> tuple[str, str, str, bool]:
    return build.model, build.chip, build.recipe, build.repaired


if __name__ == "__main__":
    sys.exit(main())
