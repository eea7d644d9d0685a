"""`chipwise inspect`: what a bundle or a compiled file of a vendor holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from chipwise.bundle import Bundle, Manifest, TensorEntry, open_bundle
from chipwise.bundle.quality_cost import quality_cost
from chipwise.cli.file_size import file_size
from chipwise.cli.inspect_rknn import show_rknn
from chipwise.model.rknn_file import is_rknn_file, read_rknn_file
from chipwise.model.scheme import TensorScheme


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the whole manifest, or all that a file says, as JSON.")
def inspect(path: Path, as_json: bool) -> None:
    """Show what the bundle at PATH holds, after checking every file in it.

    PATH may also be a .rknn file: chips, toolkit, inputs, outputs, operators and sizes are read without the toolkit.
    """
    if is_rknn_file(path):
        show_rknn(read_rknn_file(path), as_json=as_json)
        return
    bundle = open_bundle(path)
    if as_json:
        click.echo(json.dumps(bundle.manifest.to_dict(), ensure_ascii=False, indent=2))
        return
    for label, text in _rows(bundle):
        click.echo(f"{label:<10} {text}".rstrip())


def _rows(bundle: Bundle) -> Iterator[tuple[str, str]]:
    manifest = bundle.manifest
    model, engine = manifest.model, manifest.engine
    options = ", ".join(f"{name}={value}" for name, value in engine.options.items())
    yield "name", manifest.name
    emulated = " (its arithmetic emulated by the engine, not compiled for it)" if manifest.emulates else ""
    yield "target", manifest.target + emulated
    yield "engine", f"{engine.name} ({options})" if options else engine.name
    if (fallback := manifest.fallback) is not None:
        size = sum(entry.bytes for entry in manifest.fallback_files.values())
        yield "fallback", f"{fallback.engine.name} in {fallback.precision}, {file_size(size).strip()}"
    yield from _labelled("variants", _variant_lines(manifest))
    yield "model", f"{model.source_name} ({model.config.get('arch', 'unknown architecture')}, from {model.source_kind})"
    yield "licence", model.licence or "none stated by the model"
    yield "created", f"{manifest.created} by chipwise {manifest.chipwise_version}"
    yield from _labelled("files", _file_lines(manifest))
    yield from _labelled("tensors", [*scheme_lines(manifest.tensors.values()), *_beside_lines(manifest)])
    yield from _labelled("verdicts", [verdict.line() for verdict in manifest.verdicts] or ["none: not verified"])
    yield "report", f"sha256 {manifest.report_sha256}" if manifest.report_sha256 else "none"
    yield "self test", _self_test_line(manifest)


def _labelled(label: str, lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        yield label, line
        label = ""


def _variant_lines(manifest: Manifest) -> list[str]:
    return [
        f"{name}: {variant.engine.name}, {file_size(sum(e.bytes for e in variant.engine_files.values())).strip()}; "
        f"{quality_cost(variant.verdicts)}"
        for name, variant in manifest.variants.items()
    ]


def _file_lines(manifest: Manifest) -> list[str]:
    lines = [f"{file_size(entry.bytes)}  {role}" for role, entry in manifest.files.items()]
    for name, variant in manifest.variants.items():
        own = {role: entry for role, entry in variant.files.items() if manifest.files.get(role) != entry}
        lines += [f"{file_size(entry.bytes)}  {role} of variant {name}" for role, entry in own.items()]
    # Two roles, and two variants, may share one stored file.
    total = sum(entry.bytes for entry in manifest.stored_files.values())
    return [*lines, f"{file_size(total)}  in all"]


def scheme_lines(tensors: Iterable[TensorEntry]) -> list[str]:
    """One line a storage scheme: how many tensors and bytes are stored so, the most bytes first."""
    groups: dict[TensorScheme, list[int | None]] = {}
    seen: set[tuple[str, int | None]] = set()
    for tensor in tensors:
        # Weights of equal content lie in the file once.
        place = (tensor.role, tensor.offset_bytes)
        again = tensor.offset_bytes is not None and place in seen
        groups.setdefault(tensor.scheme, []).append(0 if again else tensor.bytes)
        seen.add(place)
    known = {scheme: sum(size or 0 for size in sizes) for scheme, sizes in groups.items()}
    ordered = sorted(groups, key=lambda scheme: -known[scheme])
    lines = []
    for scheme in ordered:
        size = file_size(known[scheme]) if None not in groups[scheme] else f"{'size unknown':>13}"
        lines.append(f"{size}  {len(groups[scheme])} x {_scheme_text(scheme)}")
    return lines or ["none listed"]


def _beside_lines(manifest: Manifest) -> list[str]:
    """What the weights' files hold beside the values, where that is known: the lines then add up to the files."""
    tensors = manifest.tensors.values()
    values = {(tensor.role, tensor.offset_bytes): tensor.bytes for tensor in tensors}
    roles = {tensor.role for tensor in tensors}
    if not roles or None in values.values() or not roles <= manifest.files.keys():
        return []
    total = sum({manifest.files[role].file: manifest.files[role].bytes for role in roles}.values())
    rest = total - sum(size or 0 for size in values.values())
    return [f"{file_size(rest)}  scales, zero_points, small constants and padding beside them"] if rest > 0 else []


def _scheme_text(scheme: TensorScheme) -> str:
    if scheme.scale_dtype is None:
        return scheme.dtype
    if scheme.group_size is not None:
        grain = f"group {scheme.group_size}"
    else:
        grain = "per tensor" if scheme.axis is None else "per channel"
    given = ", values as the model came with them" if scheme.as_given else ""
    symmetry = "symmetric" if scheme.symmetric else "asymmetric"
    return f"{scheme.dtype} {grain}, {symmetry}, {scheme.scale_dtype} scales{given}"


def _self_test_line(manifest: Manifest) -> str:
    test = manifest.self_test
    if manifest.graph_test is not None:
        shapes, tolerance = manifest.graph_test.shapes, manifest.graph_test.tolerance
        what = "one sample" if shapes == 1 else f"a sample of each of {shapes} shapes"
        return f"inputs and outputs of {what}, within {tolerance:g} of an output's magnitude"
    if test is None:
        return "none"
    return (
        f"{len(test.prompt)} prompt tokens, {len(test.tokens)} greedy tokens, "
        f"{len(test.logits)} logits within {test.tolerance:g}"
    )
