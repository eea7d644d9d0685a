"""ExchangeCollector: which form of which model answers, what it costs, and how often that changed."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from chipwise.bundle.quality_cost import quality_cost
from chipwise.serve.exchange import Exchange

AS_BUILT = "main"
"""What the form is called that the bundle was built as."""


class ExchangeCollector(Collector):
    """Reads an exchange when metrics are asked for."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def collect(self) -> Iterable[Metric]:
        """The model, its forms, then the exchanges."""
        exchange, model = self._exchange, self._exchange.service.model
        said = {"model": model.name, "fingerprint": model.fingerprint or "", "variant": model.variant or AS_BUILT}
        yield InfoMetricFamily("chipwise_model", "What answers new requests.", value=said)
        active = GaugeMetricFamily(
            "chipwise_variant_active", "Whether a form answers new requests.", labels=["variant"]
        )
        kl = GaugeMetricFamily(
            "chipwise_variant_kl_nats", "Mean KL divergence of a form, as verification measured it.", labels=["variant"]
        )
        agreement = GaugeMetricFamily(
            "chipwise_variant_agreement_ratio", "Next tokens as the unquantized model's.", labels=["variant"]
        )
        bundle = exchange.bundle
        for name, form in ((AS_BUILT, bundle), *bundle.variants.items()):
            active.add_metric([name], float(name == (model.variant or AS_BUILT)))
            if (cost := quality_cost(form.manifest.verdicts)) is not None:
                kl.add_metric([name], cost.kl_mean_nats)
                agreement.add_metric([name], cost.top1_agreement)
        yield from (active, kl, agreement)
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
