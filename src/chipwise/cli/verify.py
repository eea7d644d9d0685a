"""`chipwise verify`: runs a suite on a bundle, beside a reference if there is one, and holds it against a gate."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chipwise.bundle import Bundle, open_bundle
from chipwise.cli.attribution_lines import attribution_lines
from chipwise.cli.bundle_runs import run_bundles, weights_bytes
from chipwise.cli.matrix_lines import matrix_lines, semantic_lines, speed_line
from chipwise.cli.numbers import THREADS
from chipwise.cli.output_place import refuse_folder, refuse_output
from chipwise.cli.verify_server import Served, server_report
from chipwise.errors import DependencyError, GateFailedError, InputError
from chipwise.files import write_atomic, writing
from chipwise.report.caveats import caveats
from chipwise.report.html import headline, render_html, requirement
from chipwise.report.html_format import metric_value, metric_words
from chipwise.report.report import NotRun, Report
from chipwise.report.tried import TriedRecipe
from chipwise.report.verdict import Outcome, together
from chipwise.target.host.machine import look
from chipwise.verify.environment import hardware
from chipwise.verify.gate import judge
from chipwise.verify.reference.store import ReferenceStore
from chipwise.verify.reference.verify_beside import Beside
from chipwise.verify.semantic.index import with_semantic_drift
from chipwise.verify.semantic.locate import PACKAGE, installed_model, open_embedder
from chipwise.verify.suite import Suite, read_suite
from chipwise.verify.thresholds import Thresholds, parse_overrides
from chipwise.verify.weighed import weighed, weighed_reference

if TYPE_CHECKING:
    from chipwise.cli.verify_attribution import Attributing

_FLOAT_BITS = 32
_HALF_BITS = 16
_JSON, _HTML = "report.json", "report.html"


@click.command()
@click.argument("bundle", required=False, type=click.Path(path_type=Path))
@click.option("--variant", metavar="NAME", help="Variant in BUNDLE to judge.  [default: the form it was built as]")
@click.option("--url", help="Judge an OpenAI-compatible server instead, e.g. http://localhost:8000/v1.")
@click.option("--model", help="The model's name at --url.  [default: the first it lists]")
@click.option("--reference-url", help="A second server to compare --url with; it may be the same with another model.")
@click.option("--reference-model", help="The model's name at --reference-url.  [default: the first it lists]")
@click.option(
    "--suite",
    "suite_path",
    required=True,
    type=click.Path(path_type=Path),
    help="A suite: suite.toml, its folder, or one .jsonl file of cases.",
)
@click.option(
    "--reference",
    type=click.Path(path_type=Path),
    help="Bundle of the model as it was (`chipwise build --recipe fp32`), to compare with.",
)
@click.option(
    "--embeddings",
    type=click.Path(path_type=Path),
    help="Folder of a sentence-embedding model, for semantic drift.  [default: MiniLM, if its package is installed]",
)
@click.option("--gate", "overrides", multiple=True, metavar="NAME=VALUE", help="Set a threshold; may be repeated.")
@click.option("--attribute", is_flag=True, help="Find the layers that the damage comes from; needs --reference.")
@click.option("--slots", type=click.IntRange(1), default=8, show_default=True, help="Cases that run at once.")
@click.option("--threads", type=THREADS, help="Threads of the engine.  [default: the engine's choice]")
@click.option("--no-cache", is_flag=True, help="Run the reference even if its answers are kept, and keep none.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for report.json and report.html.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def verify(
    bundle: Path | None,
    variant: str | None,
    url: str | None,
    model: str | None,
    reference_url: str | None,
    reference_model: str | None,
    suite_path: Path,
    reference: Path | None,
    embeddings: Path | None,
    overrides: tuple[str, ...],
    attribute: bool,
    slots: int,
    threads: int | None,
    no_cache: bool,
    output: Path | None,
    as_json: bool,
) -> None:
    """Run a suite on the bundle at BUNDLE or the server at --url; exit code 1 if it does not surely hold.

    With a reference the two are compared token by token; without, the answers are scored alone. The reference's
    answers are kept by content in CHIPWISE_CACHE, by default the user's cache folder, and read from there next time.
    """
    _refuse_mixed(bundle, variant, url, model or reference_url or reference_model)
    if embeddings and not (reference or reference_url):
        raise InputError("--embeddings compares with a reference", remedy="give --reference or --reference-url")
    if attribute and not reference:
        raise InputError("--attribute swaps layers with a reference's", remedy="give --reference, an fp32 bundle")
    suite, own = read_suite(suite_path), parse_overrides(overrides)
    if not (reference or reference_url) and all(case.requirement is None for case in suite.cases):
        raise InputError(
            "no case says what is right, and there is no reference: nothing would be judged",
            where=str(suite_path),
            remedy="name keywords or rules in the cases, or give --reference",
        )
    if output:
        refuse_output(output)
        for name in (_JSON, _HTML):
            refuse_folder(output / name)
    if bundle is None:
        if reference:
            raise InputError("a server has no logits to compare with a bundle's", remedy="give --reference-url")
        server = Served(str(url), model, reference_url, reference_model, slots)
        report = server_report(suite, server, own, embeddings)
    else:
        store = None if no_cache else ReferenceStore.of_user()
        ours = open_bundle(bundle) if variant is None else open_bundle(bundle).variant(variant)
        report = _bundle_report(suite, ours, reference, own, embeddings, slots, threads, store, attribute=attribute)
    if output:
        _write(output, {_JSON: report.to_json(), _HTML: render_html(report)})
    if as_json:
        click.echo(report.to_json(), nl=False)
    else:
        for line in _lines(report):
            click.echo(line)
    if report.outcome != "pass":
        raise GateFailedError(headline(report).rstrip("."), remedy=_where_to_look(output))


def _refuse_mixed(bundle: Path | None, variant: str | None, url: str | None, of_server: str | None) -> None:
    """Refuse options of a bundle for a server, and of a server for a bundle."""
    if (bundle is None) == (url is None):
        raise InputError("one of BUNDLE and --url is judged", remedy="give either")
    if bundle is None and variant is not None:
        raise InputError("a server's model has no variants", where="--variant", remedy="leave it out, or give BUNDLE")
    if url is None and of_server:
        raise InputError("--model and --reference-url belong to --url", remedy="give --url, or leave them out")


def _bundle_report(
    suite: Suite,
    ours: Bundle,
    reference: Path | None,
    overrides: Mapping[str, float],
    embeddings: Path | None,
    slots: int,
    threads: int | None,
    store: ReferenceStore | None,
    *,
    attribute: bool,
) -> Report:
    theirs = open_bundle(reference) if reference else None
    if theirs and ours.same_content(theirs):
        raise InputError(
            "the reference is of the same content as the bundle: nothing could differ",
            where=str(reference),
            remedy="give the bundle of the model as it was (`chipwise build --recipe fp32`)",
        )
    thresholds = Thresholds.for_weight_bits(weight_bits(ours)).with_overrides(suite.gate)
    thresholds = thresholds.with_overrides(overrides)
    model = embeddings or installed_model()
    with ExitStack() as stack:
        # Before the cases run: what is wrong with it should not show at their end.
        embedder = stack.enter_context(open_embedder(model, threads=threads or 0)) if theirs and model else None
        attributing = _attributing(ours, theirs, threads) if attribute and theirs else None
        run = run_bundles(suite, ours, theirs, slots=slots, threads=threads, store=store)
        if embedder:
            run = replace(run, quality=with_semantic_drift(run.quality, embedder))
    report = _report(suite, ours, theirs, run, thresholds)
    return attributing.added_to(report, suite, thresholds) if attributing else report


def _attributing(ours: Bundle, theirs: Bundle, threads: int | None) -> Attributing:
    """What takes graphs apart; it needs packages of the host, which a board that verifies has not."""
    try:
        module = importlib.import_module("chipwise.cli.verify_attribution")
    except ModuleNotFoundError as e:
        raise DependencyError(
            f"--attribute needs the package {e.name}, which is not installed",
            remedy="pip install 'chipwise[build]' (Python 3.11 or newer), or attribute on the host",
        ) from e
    opened: Attributing = module.Attributing(ours, theirs, threads)
    return opened


def weight_bits(bundle: Bundle) -> int:
    """Bits of the narrowest weights of a bundle, which set what may be asked of it."""
    return min((tensor.scheme.bits for tensor in bundle.manifest.tensors.values()), default=_FLOAT_BITS)


def _write(folder: Path, texts: Mapping[str, str | bytes]) -> None:
    """Write files into a folder; if they cannot be written, a folder made for them goes again."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_atomic(folder / name, text)
    except BaseException:
        with suppress(OSError):  # something else lies in it by now, or it was never made
            if made:
                for name in texts:
                    (folder / name).unlink(missing_ok=True)
            for place in made:
                place.rmdir()
        raise


def _report(suite: Suite, ours: Bundle, theirs: Bundle | None, run: Beside, thresholds: Thresholds) -> Report:
    manifest, quality = ours.manifest, run.quality
    schemes = sorted({tensor.scheme.dtype for tensor in manifest.tensors.values()})
    provenance = {"bundle": manifest.name, "bundle created": manifest.created, "suite sha256": suite.sha256}
    not_run = []
    if theirs:
        provenance |= {"reference": theirs.manifest.name, "reference created": theirs.manifest.created}
        provenance["reference answers"] = run.answers
    else:
        not_run.append(NotRun("drift against a reference", "no --reference was given"))
    if quality.prompts_differ:
        not_run.append(NotRun("drift of the same tokens", "the two sides' chat templates write different ones"))
    if theirs and quality.semantic is None:
        not_run.append(NotRun("semantic drift", f"no embedding model; give --embeddings, or pip install {PACKAGE}"))
    if not quality.matrix:
        not_run.append(NotRun("the domain matrix", "no case that ran says what is right"))
    verdicts = judge(quality, thresholds)
    return Report(
        title=f"{manifest.name}, suite {suite.name}",
        target=manifest.target,
        model=manifest.model.source_name,
        recipe=", ".join(schemes) or "float32",
        verdicts=verdicts,
        quality=quality,
        not_run=tuple(not_run),
        hardware=hardware(look()),
        provenance=provenance,
        emulates=manifest.emulates,
        measurements=(run.speed.decode, run.speed.prefill) if run.speed else (),
        tried=_tried(ours, theirs, run, together(verdicts)),
        reference_precision=_rounded(theirs) if theirs else None,
        certainty=thresholds.certainty,
    )


def _rounded(reference: Bundle) -> str | None:
    """What a reference's weights were rounded to; None if they are as good as the model's own."""
    if weight_bits(reference) >= _HALF_BITS and not reference.manifest.emulates:
        return None
    schemes = {tensor.scheme.dtype for tensor in reference.manifest.tensors.values() if tensor.scheme.bits < _HALF_BITS}
    return ", ".join(sorted(schemes)) or f"{reference.manifest.emulates}'s arithmetic"


def _tried(ours: Bundle, theirs: Bundle | None, run: Beside, outcome: Outcome) -> tuple[TriedRecipe, ...]:
    own = weighed(
        ours.manifest.name, run.quality, size_bytes=weights_bytes(ours), speed=run.speed, outcome=outcome, kept=True
    )
    if theirs is None:
        return (own,)
    reference = weighed_reference(
        theirs.manifest.name,
        run.quality,
        size_bytes=weights_bytes(theirs),
        speed=run.reference_speed,
        earlier=run.cached,
    )
    return (reference, own)


def _lines(report: Report) -> Iterator[str]:
    quality = report.quality
    if quality:
        if quality.matrix:
            yield from matrix_lines(quality.matrix, report.verdicts)
        if quality.semantic:
            yield from semantic_lines(quality)
        if quality.answer:
            yield f"answers changed: {quality.answers_changed} of {len(quality.cases)}"
    if report.attribution:
        yield from attribution_lines(report.attribution)
    for verdict in report.verdicts:
        value = metric_value(verdict.metric, verdict.value)
        result = {"pass": "pass", "fail": "FAIL", "unclear": "????"}[verdict.outcome]
        words = metric_words(verdict.metric)
        name = f"  ({verdict.metric})" if words.settable else ""
        yield f"{result}  {words.label:<28} {value:>16}  {requirement(verdict):<20}{name}".rstrip()
    if "reference answers" in report.provenance:
        yield f"reference answers: {report.provenance['reference answers']}"
    for one in report.tried:
        yield speed_line(one)
    for item in report.not_run:
        yield f"not run: {item.what} ({item.why})"
    for caveat in caveats(report):
        yield f"note: {caveat}"
    if report.outcome == "pass":
        yield headline(report)


def _where_to_look(output: Path | None) -> str:
    return f"see {output / 'report.html'}" if output else "run again with -o FOLDER for the report"
