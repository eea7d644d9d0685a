"""GET /: what the metrics say, for a person. Made on the server, asks for nothing, and is read again by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from chipwise.bundle.quality_cost import quality_cost
from chipwise.serve.exchange.exchange import Exchange
from chipwise.serve.exchange.post import Post
from chipwise.serve.exchange.service import Service
from chipwise.serve.hardware.hardware import Hardware
from chipwise.serve.observe.metrics import Metrics
from chipwise.target.units import human
from chipwise.telemetry import Reading

# The page holds text of models, boards and drivers: nothing of it may run.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    "Cache-Control": "no-store",
}
_REFRESH_S = 2


@dataclass(frozen=True)
class Line:
    """A row of the page.

    Attributes:
        name: What it is.
        value: What it is now, with its unit.
        remark: Its source, or why it is unknown.
    """

    name: str
    value: str
    remark: str = ""


def live_route(post: Post[Service], exchange: Exchange | None = None) -> Route:
    """The route of the page."""
    environment = Environment(
        loader=PackageLoader("chipwise.serve.api"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    template = environment.get_template("live.html.j2")

    async def page(request: Request) -> Response:
        del request
        service = post.current
        hardware = service.hardware
        text = template.render(
            model=service.model.name,
            status="unhealthy" if not post.healthy else "draining" if post.draining else "ok",
            refresh_s=_REFRESH_S,
            serving=tuple(serving_lines(service.metrics)),
            requests=tuple(request_lines(service.metrics)),
            form=tuple(form_lines(service, exchange)),
            board="" if hardware is None else hardware.name,
            policy=() if hardware is None else tuple(policy_lines(hardware)),
            hardware=() if hardware is None else tuple(board_lines(hardware)),
        )
        return HTMLResponse(text, headers=_HEADERS)

    return Route("/", page)


def serving_lines(metrics: Metrics) -> Iterator[Line]:
    """Queue, batch and times."""
    running, slots = (metrics.value(f"chipwise_{name}") for name in ("running_requests", "slots"))
    yield Line("Requests that run", f"{running:.0f}", f"of {slots:.0f} at most")
    yield Line("Requests that wait", f"{metrics.value('chipwise_queue_depth_requests'):.0f}")
    yield Line("Tokens in slots", f"{metrics.value('chipwise_kv_used_tokens'):,.0f}")
    yield Line("Tokens generated", f"{metrics.value('chipwise_generated_tokens_total'):,.0f}")
    for name, text in (
        ("chipwise_time_to_first_token_seconds", "Time to the first token"),
        ("chipwise_inter_token_seconds", "Between two tokens"),
    ):
        yield _mean(metrics, name, text, lambda seconds: human(seconds, "s"))
    yield _mean(metrics, "chipwise_batch_size_rows", "Requests in a decode step", lambda rows: f"{rows:.1f}")
    gave_way = metrics.value("chipwise_parkings_total") + metrics.value("chipwise_evictions_total")
    yield Line("Requests that gave way", f"{gave_way:.0f}", "to more urgent ones")


def form_lines(service: Service, exchange: Exchange | None) -> Iterator[Line]:
    """Which form of the model answers, at what cost, what is served beside it, and what became of others."""
    model = service.model
    cost = "quality not measured" if model.quality_cost is None else str(model.quality_cost)
    yield Line("Answers", model.variant or "as built", f"{cost}; {model.fingerprint or 'no fingerprint'}")
    if exchange is None:
        return
    for name, form in exchange.variants.items():
        if name != model.variant:
            yield Line("Variant", name, str(quality_cost(form.manifest.verdicts) or "quality not measured"))
    for seat in exchange.seats:
        if (beside := seat.post.current) is not service:
            yield Line(seat.kind, beside.name, beside.fingerprint or "no fingerprint")
    counts = exchange.counts
    yield Line("Exchanges", f"{sum(counts.done.values())}", f"{sum(counts.failed.values())} came to nothing")
    if exchange.trouble:
        yield Line("Not exchanged", "", exchange.trouble)


def request_lines(metrics: Metrics) -> Iterator[Line]:
    """Requests that are over, by how they ended."""
    for outcome, number in metrics.outcomes().items():
        yield Line(outcome, f"{number:,.0f}")


def policy_lines(hardware: Hardware) -> Iterator[Line]:
    """What the policy has decided, and why."""
    decision = hardware.decision
    if decision is None:
        yield Line("Policy", "off", hardware.why_no_policy)
        return
    yield Line("Rung", decision.rung.name, "; ".join(decision.reasons))
    yield Line("Changes", f"{hardware.changes}")
    for unknown in decision.unknown:
        yield Line("Unknown", "", unknown)


def board_lines(hardware: Hardware) -> Iterator[Line]:
    """The board's values with their sources; none of a state that is too old."""
    if hardware.stale:
        yield Line("Age of the state", human(hardware.age_s, "s"), "too old to be shown")
        return
    for reading in (*hardware.state.summary, *hardware.state.details):
        remark = reading.unknown or f"{reading.source}{f' ({reading.note})' if reading.note else ''}"
        yield Line(reading.name, _value(reading), remark)


def _mean(metrics: Metrics, name: str, text: str, spoken: Callable[[float], str]) -> Line:
    count, total = metrics.value(f"{name}_count"), metrics.value(f"{name}_sum")
    if not count:
        return Line(text, "none yet")
    return Line(text, spoken(total / count), f"the mean of {count:,.0f}")


def _value(reading: Reading) -> str:
    if reading.value is None:
        return "unknown"
    if reading.unit == "C":
        return f"{reading.value:.1f} °C"
    return f"{reading.value:.3g}" if reading.unit == "1" else human(reading.value, reading.unit)
