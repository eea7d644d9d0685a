"""What an exchange of the served model costs, as results/exchange.json keeps it, and its section of the page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Waits:
    """Emergencies of one phase, from sending to the first piece of the answer.

    Attributes:
        sent: How many.
        p50_s: Median.
        p95_s: 95th percentile.
        longest_s: The longest.
    """

    sent: int
    p50_s: float
    p95_s: float
    longest_s: float


@dataclass(frozen=True)
class ExchangeRow:
    """One pair of bundles that took turns at one server.

    Attributes:
        first: The one's name.
        second: The other's.
        isolated: Whether the engine ran in a process of its own.
        exchanges: How often one took the other's place.
        took_p50_s: From the order to the new one's first request, the digests, the opening and the tests: the median.
        took_longest_s: The longest.
        quiet: Emergencies while nothing was exchanged.
        exchanging: Emergencies while one exchange followed another.
        answered: Requests of all kinds that were answered whole.
        not_answered: Those that were not.
        begin_bytes: Resident memory of the server and its engine after the first exchange.
        end_bytes: After the last one.
        largest_bytes: The largest seen, with both models open.
    """

    first: str
    second: str
    isolated: bool
    exchanges: int
    took_p50_s: float
    took_longest_s: float
    quiet: Waits
    exchanging: Waits
    answered: int
    not_answered: int
    begin_bytes: int
    end_bytes: int
    largest_bytes: int


@dataclass(frozen=True)
class ExchangeCost:
    """results/exchange.json; ``load_average`` is that when it began."""

    date: str
    cpu: str
    cores: int
    threads: int
    streams: int
    load_average: float
    rows: tuple[ExchangeRow, ...]


def exchange(result: ExchangeCost) -> list[str]:
    """What it costs those that are served meanwhile."""
    return [
        "## Exchanging the served model\n",
        f"`python -m benchmarks.exchange A B ...`, {result.date}. `chipwise serve A --threads {result.threads}` is "
        f"told again and again (`/v1/admin/reload`) to serve the other bundle, under {result.streams} background "
        "streams without a pause. Emergencies, one after another with 0.1 to 0.3 s between, are timed to their first "
        "piece, in phases without and with exchanges that take turns: so other programs met both. "
        f"{result.cpu}, {result.cores} cores, which the opening of a model shares with serving; load average "
        f"{result.load_average:.1f} at the start.\n",
        "| bundles | engine | exchanges | took, median | longest | emergencies quiet: sent | p50 | p95 | longest "
        "| exchanging: sent | p50 | p95 | longest | p95 over quiet | answered | not answered | memory, first | last "
        "| both open |",
        "|" + "---|" * 19,
        *(
            f"| {row.first}, {row.second} | {'isolated' if row.isolated else 'in process'} | {row.exchanges} "
            f"| {row.took_p50_s:.2f} s | {row.took_longest_s:.2f} s | {_waits(row.quiet)} | {_waits(row.exchanging)} "
            f"| {row.exchanging.p95_s / row.quiet.p95_s:.2f} | {row.answered} | {row.not_answered} "
            f"| {_mib(row.begin_bytes)} | {_mib(row.end_bytes)} "
            f"| {_mib(row.largest_bytes)} |"
            for row in result.rows
        ),
        "",
        "Memory is resident memory. It counts the KV slot that guesses were checked in once for each row it was shown "
        "at, up to 17 times, so it differs with what was asked last; both open, it is the largest seen.\n",
    ]


def _waits(waits: Waits) -> str:
    times = (f"{seconds * 1000:.0f} ms" for seconds in (waits.p50_s, waits.p95_s, waits.longest_s))
    return " | ".join((str(waits.sent), *times))


def _mib(size: int) -> str:
    return f"{size / 2**20:.0f} MiB"
