"""`chipwise compare`: two bundles of one model beside each other."""

from __future__ import annotations

from pathlib import Path

import click

from chipwise.bundle import Bundle, open_bundle
from chipwise.bundle.manifest import CHAT_TEMPLATE, SPECIAL_TOKENS, TOKENIZER
from chipwise.cli.bundle_runs import run_bundles, weights_bytes
from chipwise.cli.matrix_lines import matrix_lines
from chipwise.cli.numbers import THREADS
from chipwise.cli.output_place import refuse_output
from chipwise.errors import InputError, OutputError
from chipwise.files import read_bounded, write_atomic
from chipwise.report.html_format import number, size
from chipwise.report.html_side_by_side import render_side_by_side
from chipwise.report.measurement import Measurement
from chipwise.report.report import Report
from chipwise.report.side_by_side import Side, SideBySide
from chipwise.verify.reference.store import ReferenceStore
from chipwise.verify.side_by_side import paired
from chipwise.verify.speed import Speed
from chipwise.verify.statements import statements
from chipwise.verify.suite import read_suite

_MAX_REPORT_BYTES = 1 << 28
_REPORT = "report.json"
_SIGNS = {"worse": "-", "better": "+", "even": "="}


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--suite", "suite_path", type=click.Path(path_type=Path), help="Run both through these cases, paired.")
@click.option("--slots", type=click.IntRange(1), default=8, show_default=True, help="Cases that run at once.")
@click.option("--threads", type=THREADS, help="Threads of the engine.  [default: the engine's choice]")
@click.option("--no-cache", is_flag=True, help="Run A even if its answers are kept, and keep none.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the comparison as one HTML file.")
@click.option("--overwrite", is_flag=True, help="Replace what lies at OUTPUT.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def compare(
    a: Path,
    b: Path,
    suite_path: Path | None,
    slots: int,
    threads: int | None,
    no_cache: bool,
    output: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Say how bundle B differs from bundle A: size, speed, the four dimensions, drift.

    Without --suite their reports are compared, case by case, if both were verified on the same cases. A difference in a
    dimension is called one only if McNemar's test, corrected for their number, rules out chance.
    """
    if output:
        refuse_output(output)
        if output.is_dir() or (output.exists() and not overwrite):
            raise OutputError("something lies there", where=str(output), remedy="name another file, or --overwrite one")
    ours, theirs = open_bundle(a), open_bundle(b)
    _refuse(ours, theirs)
    if suite_path:
        store = None if no_cache else ReferenceStore.of_user()
        found = _run(ours, theirs, suite_path, slots, threads, store)
    else:
        found = _read(ours, theirs)
    if output:
        write_atomic(output, render_side_by_side(found))
    if as_json:
        click.echo(found.to_json(), nl=False)
        return
    for line in lines(found):
        click.echo(line)


def _refuse(a: Bundle, b: Bundle) -> None:
    folder = a.path.resolve() == b.path.resolve()
    if folder or a.same_content(b):
        same = "the same folder" if folder else "of the same content"
        raise InputError(f"A and B are {same}", where=str(b.path), remedy="name two different bundles")
    for bundle in (a, b):
        if TOKENIZER not in bundle.manifest.files:
            raise InputError("holds no language model", where=str(bundle.path), remedy="compare bundles of decoders")
    for role in (TOKENIZER, SPECIAL_TOKENS):
        if a.manifest.files.get(role) != b.manifest.files.get(role):
            raise InputError(
                "A and B have different tokenizers: the same tokens would mean other texts",
                where=str(b.path),
                remedy="compare two bundles of the same model",
            )


def _run(
    a: Bundle, b: Bundle, suite_path: Path, slots: int, threads: int | None, store: ReferenceStore | None
) -> SideBySide:
    suite = read_suite(suite_path)
    run = run_bundles(suite, b, a, slots=slots, threads=threads, store=store)
    notes = [f"A's answers: {run.answers}"]
    if a.manifest.files.get(CHAT_TEMPLATE) != b.manifest.files.get(CHAT_TEMPLATE):
        notes.append("the chat templates differ: both were given the prompts that B's writes")
    for side, bundle in (("A", a), ("B", b)):
        if bundle.manifest.emulates:
            notes.append(f"{side} emulates {bundle.manifest.emulates}: its speed here says nothing of the chip's")
    words = f"{len(run.quality.cases)} cases of {suite.name}, run now"
    sides = _side(a, _report(a), run.reference_speed), _side(b, _report(b), run.speed)
    return SideBySide(
        *sides, words, run.quality, statements(run.quality, *sides, timed_together=not run.cached), tuple(notes)
    )


def _read(a: Bundle, b: Bundle) -> SideBySide:
    one, other = _own_report(a), _own_report(b)
    quality, notes = paired(one, other)
    sides = _side(a, one, None), _side(b, other, None)
    notes = (*notes, "each speed is of the time its bundle was built; --suite measures both in one run")
    machines = [side.decode.hardware if side.decode else "not measured" for side in sides]
    if machines[0] != machines[1]:
        notes = (*notes, f"speeds were measured on different machines: A {machines[0]}, B {machines[1]}")
    scored_by = [report.versions.get("chipwise", "an unknown version") for report in (one, other)]
    if scored_by[0] != scored_by[1]:
        who = f"A by chipwise {scored_by[0]}, B by {scored_by[1]}"
        notes = (*notes, f"the answers were scored by different versions, {who}; --suite scores both now")
    words = f"{len(quality.cases)} cases that both were built with"
    return SideBySide(*sides, words, quality, statements(quality, *sides, timed_together=False), notes)


def _own_report(bundle: Bundle) -> Report:
    report = _report(bundle)
    if report is None:
        raise InputError(
            "has no report to compare", where=str(bundle.path), remedy="run both through a suite with --suite"
        )
    return report


def _report(bundle: Bundle) -> Report | None:
    """The report that came with a bundle; a board may have left it out."""
    path = bundle.path / _REPORT
    if _REPORT not in bundle.manifest.documents or not path.is_file():
        return None
    return Report.from_json(read_bounded(path, _MAX_REPORT_BYTES), where=str(path))


def _side(bundle: Bundle, report: Report | None, speed: Speed | None) -> Side:
    manifest = bundle.manifest
    told = {one.name: one for one in report.measurements} if report and speed is None else {}
    drift = report.quality.answer if report and report.quality else None
    return Side(
        manifest.name, manifest.target, manifest.engine.name, weights_bytes(bundle),
        speed.decode if speed else told.get("decode"), speed.prefill if speed else told.get("prefill"),
        manifest.chipwise_version, manifest.created,
        report.outcome if report else None, drift.kl_mean_nats if drift else None,
    )  # fmt: skip


def lines(found: SideBySide) -> list[str]:
    """The comparison as lines of a terminal."""
    said = [f"{side}  {_described(one)}" for side, one in (("A", found.a), ("B", found.b))]
    said.append(f"on {found.cases_from}:")
    if found.quality and found.quality.matrix:
        said += matrix_lines(found.quality.matrix, (), sides=("A", "B"))
    said += [f"{_SIGNS[one.kind]} {one.text}" for one in found.statements]
    return [*said, *(f"note: {note}" for note in found.notes)]


def _described(side: Side) -> str:
    parts = [side.name, f"for {side.target}", size(side.size_bytes)]
    parts += [f"{name} {_rate(speed)}" for name, speed in (("decode", side.decode), ("prefill", side.prefill)) if speed]
    if side.outcome:
        parts.append(f"its gate: {side.outcome}")
    return ", ".join(parts)


def _rate(speed: Measurement) -> str:
    spread = f" ± {number(speed.spread, 2)}" if speed.spread else ""
    return f"{number(speed.value)}{spread} {speed.unit}"
