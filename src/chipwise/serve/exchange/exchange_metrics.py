"""ExchangeCollector: which models answer, in which form and at what cost, and how often that changed."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from chipwise.bundle.quality_cost import quality_cost
from chipwise.serve.exchange.exchange import Exchange
from chipwise.serve.exchange.seat import Seat
from chipwise.serve.exchange.service import Service

AS_BUILT = "main"
"""What the form is called that the bundle was built as."""


class ExchangeCollector(Collector):
    """Reads an exchange when metrics are asked for."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def collect(self) -> Iterable[Metric]:
        """The models, the language model's forms, then the exchanges."""
        if (chat := self._exchange.chat) is not None:
            yield from _forms(chat)
        shots = [seat for seat in self._exchange.seats if seat is not chat]
        if shots:
            family = InfoMetricFamily(
                "chipwise_job_model", "What answers new requests in one run.", labels=["kind", "model", "fingerprint"]
            )
            for seat in shots:
                shot = seat.post.current
                family.add_metric([seat.kind, shot.name, shot.fingerprint or ""], {})
            yield family
        yield from self._exchanges()

    def _exchanges(self) -> Iterable[Metric]:
        exchange = self._exchange
        done = CounterMetricFamily("chipwise_exchanges", "Models that took another's place.", labels=["reason"])
        failed = CounterMetricFamily(
            "chipwise_exchange_failures", "Models that could not take another's place.", labels=["reason"]
        )
        for reason, number in exchange.counts.done.items():
            done.add_metric([reason], number)
            failed.add_metric([reason], exchange.counts.failed[reason])
        yield from (done, failed)
        leaving = "Models that finish requests and have given their place away."
        yield GaugeMetricFamily("chipwise_leaving_models", leaving, float(exchange.n_leaving))


def _forms(seat: Seat[Service]) -> Iterable[Metric]:
    """The language model and its forms."""
    model, bundle = seat.post.current.model, seat.bundle
    said = {"model": model.name, "fingerprint": model.fingerprint or "", "variant": model.variant or AS_BUILT}
    yield InfoMetricFamily("chipwise_model", "What answers new requests.", value=said)
    active = GaugeMetricFamily("chipwise_variant_active", "Whether a form answers new requests.", labels=["variant"])
    kl = GaugeMetricFamily(
        "chipwise_variant_kl_nats", "Mean KL divergence of a form, as verification measured it.", labels=["variant"]
    )
    agreement = GaugeMetricFamily(
        "chipwise_variant_agreement_ratio", "Next tokens as the unquantized model's.", labels=["variant"]
    )
    for name, form in ((AS_BUILT, bundle), *bundle.variants.items()):
        active.add_metric([name], float(name == (model.variant or AS_BUILT)))
        if (cost := quality_cost(form.manifest.verdicts)) is not None:
            kl.add_metric([name], cost.kl_mean_nats)
            agreement.add_metric([name], cost.top1_agreement)
    yield from (active, kl, agreement)
