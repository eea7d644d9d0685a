"""`chipwise build`: from a model to a verified bundle, said step by step."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Literal

import click

from chipwise.build import BuildOptions, BuildResult
from chipwise.build import build as run_build
from chipwise.cli.attribution_lines import attribution_lines
from chipwise.cli.matrix_lines import matrix_lines
from chipwise.cli.numbers import CONTEXT, THREADS_OR_ALL, dimension_sets, fixed_values
from chipwise.errors import GateFailedError
from chipwise.report.caveats import caveats
from chipwise.report.report import Step
from chipwise.verify.thresholds import parse_overrides


@click.command()
@click.argument("model")
@click.option("--target", "-t", required=True, help="Name of the target; see `chipwise targets`.")
@click.option("-o", "--output", "out", required=True, type=click.Path(path_type=Path), help="Folder of the bundle.")
@click.option(
    "--recipe", "-r", default="auto", show_default=True, help="auto, fp32, w8a8, w8a16, w4a16, w4a16_g64, ..."
)
@click.option(
    "--queries",
    type=click.Path(path_type=Path),
    help="Your queries, one JSON a line: to calibrate, and without a suite to verify on.",
)
@click.option(
    "--samples",
    type=click.Path(path_type=Path),
    help="Inputs of an ONNX graph: .npz or .npy, a file or a folder of them.",
)
@click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=SIZE[,SIZE...]",
    help="Size of an ONNX dimension, or several for one file (Rockchip); may be repeated: the k-th sizes go together.",
)
@click.option("--fix", "fixed", multiple=True, metavar="NAME=VALUE", help="Value an ONNX input has for good.")
@click.option("--suite", type=click.Path(path_type=Path), help="suite.toml, its folder, or a .jsonl of cases.")
@click.option("--cases", "max_cases", type=click.IntRange(1), default=100, show_default=True, help="Cases verified.")
@click.option("--context", "max_context", type=click.IntRange(16, CONTEXT.max), help="Tokens a conversation may have.")
@click.option("--gate", "overrides", multiple=True, metavar="NAME=VALUE", help="Set a threshold; may be repeated.")
@click.option(
    "--embeddings",
    type=click.Path(path_type=Path),
    help="Folder of a sentence-embedding model, for semantic drift.  [default: MiniLM, if its package is installed]",
)
@click.option(
    "--images",
    type=click.Path(path_type=Path),
    help="JSON file of how pictures become the inputs of an ONNX graph, kept in the bundle for /v1/infer.",
)
@click.option(
    "--audio",
    type=click.Path(path_type=Path),
    help="JSON file of how recordings become the inputs of an ONNX graph, kept in the bundle for /v1/infer.",
)
@click.option("--threads", type=THREADS_OR_ALL, default=0, help="Threads of the engine.  [default: one a core]")
@click.option("--emulate", is_flag=True, help="Emulate the chip even if its toolchain is installed.")
@click.option(
    "--repair/--no-repair",
    default=True,
    show_default=True,
    help="Look for the cheapest change that lets a recipe pass which fails as it is (ONNX graphs and encoders).",
)
@click.option(
    "--fallback",
    type=click.Choice(["fp16", "fp32", "none"]),
    default="none",
    show_default=True,
    help="Keep the model in floating point beside it: serving goes on there, on the CPU, where the engine fails.",
)
@click.option(
    "--engine",
    type=click.Choice(["llama.cpp"]),
    help="Keep a .gguf file as it is and run it in this engine, held against its own weights in float32.  "
    "[default: build for the target's engine]",
)
@click.option(
    "--job-timeout",
    "job_timeout_s",
    type=click.IntRange(1, 30 * 86400),
    default=4 * 3600,
    show_default=True,
    metavar="SECONDS",
    help="Stop a job of the chip's own toolchain that takes longer.",
)
@click.option("--no-cache", is_flag=True, help="Run the reference even if its answers are kept, and keep none.")
@click.option("--overwrite", is_flag=True, help="Replace the bundle at OUTPUT, once the new one is whole.")
def build(
    model: str,
    target: str,
    out: Path,
    recipe: str,
    queries: Path | None,
    samples: Path | None,
    dims: tuple[str, ...],
    fixed: tuple[str, ...],
    suite: Path | None,
    max_cases: int,
    max_context: int | None,
    overrides: tuple[str, ...],
    embeddings: Path | None,
    images: Path | None,
    audio: Path | None,
    threads: int,
    emulate: bool,
    repair: bool,
    fallback: Literal["fp16", "fp32", "none"],
    engine: Literal["llama.cpp"] | None,
    job_timeout_s: int,
    no_cache: bool,
    overwrite: bool,
) -> None:
    """Build MODEL for a target: check, rewrite, quantize, verify, bundle.

    MODEL is a Hugging Face folder, a .gguf or .onnx file, or hf:OWNER/NAME.

    Exit code 1 if the gate fails; the bundle is then at OUTPUT.failed, and what was at OUTPUT stays.
    """
    sets = dimension_sets(dims)
    options = BuildOptions(
        model=model, target=target, out=out, recipe=recipe, queries=queries, samples=samples,
        dims={} if sets[1:] else sets[0],
        shape_sets=sets if sets[1:] else (), fixed=fixed_values(fixed), suite=suite, max_cases=max_cases,
        max_context=max_context, gate=parse_overrides(overrides), threads=threads, overwrite=overwrite,
        emulate=emulate, repair=repair, embeddings=embeddings, images=images, audio=audio, cache=not no_cache,
        fallback=None if fallback == "none" else fallback, engine=engine,
        job_timeout_s=job_timeout_s,
    )  # fmt: skip
    result = run_build(options, _Printer())
    _print_outcome(result)
    if not result.passed:
        raise GateFailedError(
            "the gate failed", where=str(result.bundle), remedy="open its report.html, or try a wider --recipe"
        )


class _Printer:
    """Says what the build does, one line a step, with the time left of long ones on a terminal."""

    def __init__(self) -> None:
        self._start = 0.0
        self._live = sys.stderr.isatty()

    def started(self, name: str) -> None:
        self._start = time.monotonic()
        if self._live:
            click.echo(f"\r  {name} ...", nl=False, err=True)

    def progress(self, done: int, total: int) -> None:
        if not self._live or not done:
            return
        left_s = (time.monotonic() - self._start) / done * (total - done)
        click.echo(f"\r\033[K  {done}/{total}, about {left_s:.0f} s left", nl=False, err=True)

    def finished(self, step: Step) -> None:
        if self._live:
            click.echo("\r\033[K", nl=False, err=True)
        peak = f"{step.peak_bytes / 1e6:.0f} MB" if step.peak_bytes else ""
        click.echo(f"{step.name:<18} {step.duration_s:7.1f} s  peak {peak:>8}  {step.note}")


def _print_outcome(result: BuildResult) -> None:
    for verdict in result.report.verdicts:
        click.echo(f"  {verdict.line()}")
    if result.report.attribution:
        for line in attribution_lines(result.report.attribution):
            click.echo(f"  {line}")
    for item in result.report.not_run:
        click.echo(f"  not run: {item.what} ({item.why})")
    for caveat in caveats(result.report):
        click.echo(f"  note: {caveat}")
    quality = result.report.quality
    if quality and quality.matrix:
        for line in matrix_lines(quality.matrix, result.report.verdicts):
            click.echo(f"  {line}")
    total_s = sum(step.duration_s for step in result.report.steps)
    click.echo(f"{'passed' if result.passed else 'FAILED'} with {result.recipe} in {total_s:.0f} s")
    click.echo(f"bundle: {result.bundle}")
    click.echo(f"report: {result.bundle / 'report.html'}")
