"""`chipwise serve`: answers OpenAI clients from a bundle."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path

import click

from chipwise.cli.numbers import CONTEXT, SLOTS, THREADS
from chipwise.serve.served_model import ServedModel
from chipwise.serve.server import Announcer
from chipwise.serve.server import serve as run
from chipwise.serve.settings import ServeSettings

_DEFAULT = ServeSettings()


def _finite(_: click.Context, option: click.Parameter, value: float) -> float:
    # NaN lies in every range of click's.
    if not math.isfinite(value):
        raise click.BadParameter(f"{value} is no time in seconds.", param=option)
    return value


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--host", default=_DEFAULT.host, show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=_DEFAULT.port, show_default=True, help="Port; 0 takes a free one."
)
@click.option("--slots", type=SLOTS, default=4, show_default=True, help="Requests that run at once.")
@click.option(
    "--context",
    type=CONTEXT,
    help="Tokens of a prompt and its answer.  [default: the model's limit, 4096 at most]",
)
@click.option("--threads", type=THREADS, help="Threads of the engine.  [default: the engine's choice]")
@click.option(
    "--queue",
    type=click.IntRange(0),
    default=_DEFAULT.max_waiting,
    show_default=True,
    help="Requests that may wait; the next gets 429.",
)
@click.option(
    "--grace",
    type=click.FloatRange(0),
    callback=_finite,
    default=_DEFAULT.grace_s,
    show_default=True,
    help="Seconds that running requests get after Ctrl-C.",
)
def serve(
    bundle: Path, host: str, port: int, slots: int, context: int | None, threads: int | None, queue: int, grace: float
) -> None:
    """Serve the bundle at BUNDLE to OpenAI clients.

    Every byte is checked and the self-test run first. Ctrl-C lets running requests finish; a second one quits at once.
    """
    settings = ServeSettings(host=host, port=port, max_waiting=queue, grace_s=grace)
    announcer = Announcer(ready=_say_ready, draining=lambda: _say_draining(grace))
    run(bundle, settings, n_slots=slots, max_context=context, threads=threads, announcer=announcer)
    click.echo("stopped")


def _say_ready(model: ServedModel, url: str) -> None:
    session = model.session
    click.echo(f"serving {model.name}: {session.n_slots} requests at once, {session.max_context} tokens each")
    if model.emulates:
        click.echo(f"this bundle emulates {model.emulates}'s arithmetic on this machine: its speed is not the chip's")
    click.echo(f"ready at {url}/v1, for any OpenAI client; metrics at {url}/metrics; ask it with")
    click.echo(f"  {_curl(model, url)}")


def _curl(model: ServedModel, url: str) -> str:
    if model.chat_template is None:
        path, asked = "completions", {"prompt": "Once upon a time", "max_tokens": 32}
    else:
        path, asked = "chat/completions", {"messages": [{"role": "user", "content": "Hello!"}]}
    body = json.dumps({"model": model.name, **asked}, ensure_ascii=False)
    return f"curl {url}/v1/{path} -H 'Content-Type: application/json' -d {shlex.quote(body)}"


def _say_draining(grace_s: float) -> None:
    click.echo(f"ending: no new requests, running ones get {grace_s:g} s; Ctrl-C again quits at once", err=True)
