"""`chipwise bundle`: what becomes of a bundle after it was built."""

from __future__ import annotations

from pathlib import Path

import click

from chipwise.bundle import Bundle
from chipwise.bundle.quality_cost import quality_cost
from chipwise.bundle.variants import add_variant, remove_variant
from chipwise.cli.file_size import file_size

_BUNDLE = click.argument("bundle", type=click.Path(path_type=Path))


@click.group()
def bundle() -> None:
    """Put further forms of a model into its bundle, and take them out."""


@bundle.command("add-variant")
@_BUNDLE
@click.argument("other", type=click.Path(path_type=Path))
@click.option("--as", "name", required=True, help="What to call it, e.g. cool.")
def add(bundle: Path, other: Path, name: str) -> None:
    """Put the model of the bundle OTHER into BUNDLE as a variant.

    A server changes over to it when the board is too hot. It must be the same model, with the same tokenizer, template
    and context, built for the same target in another precision, and have passed its gate. Files that both have are
    stored once.
    """
    made = add_variant(bundle, other, name)
    variant = made.manifest.variants[name]
    click.echo(f"added variant {name} to {made.manifest.name}: {quality_cost(variant.verdicts)}")
    click.echo(f"as built   {_weight(made)}; {quality_cost(made.manifest.verdicts) or 'quality not measured'}")
    click.echo(f"{name:<10} {_weight(made.variants[name])}; {quality_cost(variant.verdicts)}")
    shared = {entry.file for entry in made.manifest.files.values()}
    own = {entry.file: entry.bytes for entry in variant.files.values() if entry.file not in shared}
    click.echo(f"on disk    {_size(sum(own.values()))} more, {_stored(made)} in all")


@bundle.command("remove-variant")
@_BUNDLE
@click.argument("name")
def remove(bundle: Path, name: str) -> None:
    """Take the variant NAME out of BUNDLE, and the files that only it needs."""
    made = remove_variant(bundle, name)
    click.echo(f"removed variant {name} from {made.manifest.name}: {_stored(made)} left")


def _weight(bundle: Bundle) -> str:
    size = sum(entry.bytes for entry in bundle.manifest.engine_files.values())
    return f"{_size(size)} for {bundle.manifest.engine.name}"


def _stored(bundle: Bundle) -> str:
    return _size(sum(entry.bytes for entry in bundle.manifest.stored_files.values()))


def _size(n_bytes: int) -> str:
    return file_size(n_bytes).strip()
