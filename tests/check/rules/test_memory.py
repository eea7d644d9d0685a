from __future__ import annotations

import pytest

from chipwise.check.memory import memory_need
from chipwise.check.rules.memory import memory, memory_unknown
from tests.check.graphs import given_decoder, target

NEED = memory_need(given_decoder(target(), "w8a8", max_context=512, n_streams=2)).total_bytes


@pytest.mark.parametrize(
    ("share", "severity"), [(0.5, None), (0.75, None), (0.9, "warning"), (1.0, "warning"), (1.1, "error")]
)
def test_by_the_share_of_the_memory(share: float, severity: str | None) -> None:
    on = target(memory_bytes=NEED / share)
    found = [f.severity for f in memory(given_decoder(on, "w8a8", max_context=512, n_streams=2))]
    assert found == ([] if severity is None else [severity])


def test_the_parts_are_told() -> None:
    (one,) = memory(given_decoder(target(memory_bytes=1000), "w8a8", max_context=512, n_streams=2))
    assert "weights" in one.measured
    assert "KV cache" in one.measured
    assert "2 x 512 tokens" in one.measured


def test_unknown_memory_is_said() -> None:
    assert list(memory(given_decoder(target()))) == []
    (one,) = memory_unknown(given_decoder(target()))
    assert (one.severity, one.limit) == ("info", "unknown")
    assert list(memory_unknown(given_decoder(target(memory_bytes=1e9)))) == []
