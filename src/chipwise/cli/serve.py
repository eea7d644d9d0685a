"""`chipwise serve`: answers OpenAI clients from a bundle."""

from __future__ import annotations

import json
import math
import shlex
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from chipwise.cli.board_options import board_options, board_settings
from chipwise.cli.numbers import CONTEXT, LONGEST_S, SLOTS, THREADS
from chipwise.engine.isolated import Isolation
from chipwise.errors import InputError
from chipwise.serve.assembly.assembly import Served
from chipwise.serve.hardware.hardware import Hardware
from chipwise.serve.http.keys import read_keys
from chipwise.serve.models.open_model import FallbackMode, ModelOpener
from chipwise.serve.models.served_graph import ServedGraph
from chipwise.serve.models.served_model import ServedModel
from chipwise.serve.observe.tracing import require_opentelemetry, traces_url
from chipwise.serve.server import Announcer
from chipwise.serve.server import serve as run
from chipwise.serve.settings import ServeSettings

_DEFAULT = ServeSettings()
# They mean nothing to an encoder or a graph alone.
_OF_LANGUAGE_MODELS = (
    "slots", "context", "fallback", "reserve", "parking", "sinks", "speculate", "keep_prompts",
    "board", "trip", "peak_watts", "sustained", "clock_floor", "air",
)  # fmt: skip


def _finite(_: click.Context, option: click.Parameter, value: float | None) -> float | None:
    # NaN lies in every range of click's.
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no time in seconds.", param=option)
    return value


def _traces_endpoint(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    # Looked at before a model is loaded for minutes.
    if value is None:
        return None
    require_opentelemetry()
    return traces_url(value)


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
@click.option(
    "--embeddings",
    type=click.Path(path_type=Path),
    help="Bundle of an encoder that is served beside it, for /v1/embeddings.  [default: none]",
)
@click.option(
    "--infer",
    type=click.Path(path_type=Path),
    help="Bundle of a plain graph that is served beside it, for /v1/infer.  [default: none]",
)
@click.option(
    "--shared-memory",
    is_flag=True,
    help="Let local programs of the server's own user hand tensors for /v1/infer over in shared memory.",
)
@click.option("--threads", type=THREADS, help="Threads of the engine.  [default: the engine's choice]")
@click.option(
    "--fallback",
    type=click.Choice(["lazy", "resident", "off"]),
    default="lazy",
    show_default=True,
    help="When the second engine of a bundle that has one is opened: on first need, at the start, or never.",
)
@click.option(
    "--isolate/--no-isolate",
    default=None,
    help="Run each engine in a process of its own, which is replaced when it crashes or hangs.  "
    "[default: on for every engine but onnxruntime]",
)
@click.option(
    "--engine-timeout",
    type=click.FloatRange(0, LONGEST_S, min_open=True),
    callback=_finite,
    help="Seconds after which a step or run of an engine's own process counts as a hang.  "
    "[default: ten times the slowest so far, 30 at least]",
)
@click.option(
    "--queue",
    type=click.IntRange(0),
    default=_DEFAULT.max_waiting,
    show_default=True,
    help="Requests of each priority that may wait; the next gets 429.",
)
@click.option(
    "--reserve",
    type=click.IntRange(0, 64),
    help="More requests that run at once, but only urgent ones.  [default: 1, without --slots 1]",
)
@click.option(
    "--parking",
    type=click.IntRange(0, 64),
    help="KV slots for requests that gave way to urgent ones.  [default: 1, without --slots 1]",
)
@click.option(
    "--keys",
    "keys_file",
    type=click.Path(path_type=Path),
    help="File of API keys, each with a client and the most urgent priority it may ask for.",
)
@click.option(
    "--sinks",
    type=click.IntRange(0),
    help="Let texts outgrow --context: so many first tokens stay, and the oldest after them give way.  "
    "[default: they end there]",
)
@click.option(
    "--speculate",
    type=click.Choice(["auto", "off"]),
    default="auto",
    show_default=True,
    help="Whether next tokens are guessed and checked several in a step, where that pays. It chooses none itself.",
)
@click.option(
    "--keep-prompts",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder where the KV of recent prompts outlives the server.",
)
@click.option(
    "--otlp-traces-endpoint",
    callback=_traces_endpoint,
    metavar="URL",
    help="Send an OpenTelemetry trace of each request to this collector, by OTLP over HTTP.  [default: none]",
)
@click.option(
    "--request-timeout",
    type=click.FloatRange(0, LONGEST_S, min_open=True),
    callback=_finite,
    help="Seconds that an answer may take, waiting included.  [default: no end]",
)
@click.option(
    "--grace",
    type=click.FloatRange(0, LONGEST_S),
    callback=_finite,
    default=_DEFAULT.grace_s,
    show_default=True,
    help="Seconds that running requests get after Ctrl-C.",
)
@board_options
def serve(
    bundle: Path,
    host: str,
    port: int,
    slots: int,
    context: int | None,
    embeddings: Path | None,
    infer: Path | None,
    shared_memory: bool,
    threads: int | None,
    fallback: FallbackMode,
    isolate: bool | None,
    engine_timeout: float | None,
    queue: int,
    reserve: int | None,
    parking: int | None,
    keys_file: Path | None,
    sinks: int | None,
    speculate: str,
    keep_prompts: Path | None,
    otlp_traces_endpoint: str | None,
    request_timeout: float | None,
    grace: float,
    **board: Any,
) -> None:
    """Serve the bundle at BUNDLE to OpenAI clients: a language model, an encoder or a graph.

    Every byte is checked and the self-test run first. Ctrl-C lets running requests finish; a second one quits at once.
    After SIGHUP another bundle that lies there, or beside it, takes over without a pause.
    """
    _refuse_idle_timeout(engine_timeout, isolate)
    extra = 0 if slots == 1 else 1  # some runtimes hold one sequence only
    settings = ServeSettings(
        host=host,
        port=port,
        max_waiting=queue,
        reserved_slots=extra if reserve is None else reserve,
        parking_slots=extra if parking is None else parking,
        request_timeout_s=request_timeout,
        sinks=sinks,
        speculate=speculate == "auto",
        kept_prompts=keep_prompts,
        shared_memory=shared_memory,
        otlp_traces_endpoint=otlp_traces_endpoint,
        grace_s=grace,
    )
    all_slots = slots + settings.reserved_slots + settings.parking_slots
    announcer = Announcer(partial(_say_ready, slots=slots), _say_board, lambda: _say_draining(grace))
    run(
        bundle,
        settings,
        ModelOpener(all_slots, context, threads, fallback, isolate, Isolation(step_timeout_s=engine_timeout)),
        keys=None if keys_file is None else read_keys(keys_file),
        board=board_settings(**board),
        announcer=announcer,
        embeddings=embeddings,
        infer=infer,
        of_chat=_given(_OF_LANGUAGE_MODELS),
    )
    click.echo("stopped")


def _given(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of some options that the user gave, as they are written."""
    context = click.get_current_context()
    given = (name for name in names if context.get_parameter_source(name) is not ParameterSource.DEFAULT)
    return tuple(f"--{name.replace('_', '-')}" for name in given)


def _say_ready(served: Served, url: str, *, slots: int) -> None:
    chat, encoder, graph, pages = served.chat, served.encoder, served.graph, ""
    if chat is not None:
        click.echo(f"serving {chat.name}: {slots} requests at once, {chat.session.max_context} tokens each")
        for variant in served.variants:
            click.echo(f"variant {variant.name}, for when the board is too hot: {variant.quality_cost}")
        pages = f"live page at {url}/; "
    if encoder is not None:
        click.echo(f"serving {encoder.name}: embeddings of {encoder.width}, texts of {encoder.max_tokens} tokens")
    if graph is not None:
        click.echo(f"serving {graph.name}: {_inputs(graph)}")
    for model in (chat, encoder, graph):
        if model is not None and model.emulates:
            click.echo(
                f"{model.name} emulates {model.emulates}'s arithmetic on this machine: its speed is not the chip's"
            )
    click.echo(f"ready at {url}/v1, for any OpenAI client; {pages}metrics at {url}/metrics; ask it with")
    if chat is not None:
        click.echo(f"  {_curl(chat, url)}")
    if encoder is not None:
        click.echo(f"  {_curl_line(url, 'embeddings', {'model': encoder.name, 'input': 'Hello!'})}")
    if graph is not None:
        click.echo(f"  curl {url}/v1/infer")


def _inputs(graph: ServedGraph) -> str:
    sizes = [
        f"{spec.name} [{', '.join('any' if size is None else str(size) for size in spec.shape)}]"
        for spec in graph.inputs
    ]
    return f"tensors {', '.join(sizes)}"


def _curl(model: ServedModel, url: str) -> str:
    if model.chat_template is None:
        path, asked = "completions", {"prompt": "Once upon a time", "max_tokens": 32}
    else:
        path, asked = "chat/completions", {"messages": [{"role": "user", "content": "Hello!"}]}
    return _curl_line(url, path, {"model": model.name, **asked})


def _curl_line(url: str, path: str, fields: dict[str, Any]) -> str:
    body = json.dumps(fields, ensure_ascii=False)
    return f"curl {url}/v1/{path} -H 'Content-Type: application/json' -d {shlex.quote(body)}"


def _say_board(hardware: Hardware) -> None:
    temp = hardware.state.temp_c
    felt = f"unknown ({temp.unknown})" if temp.value is None else f"{temp.value:.1f} °C"
    click.echo(f"board {hardware.name}: temperature {felt}")
    if hardware.why_no_policy:
        click.echo(f"heat and power decide nothing: {hardware.why_no_policy}")


def _say_draining(grace_s: float) -> None:
    click.echo(f"ending: no new requests, running ones get {grace_s:g} s; Ctrl-C again quits at once", err=True)


def _refuse_idle_timeout(engine_timeout: float | None, isolate: bool | None) -> None:
    if engine_timeout is not None and isolate is False:
        raise InputError(
            "an engine in the server's own process cannot be ended when it hangs",
            where="--engine-timeout",
            remedy="leave it out, or --no-isolate",
        )
