from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks import llama_server
from benchmarks.load import Asked, Prompts, ask, background, client_of, tokens_between
from benchmarks.served import Server
from chipwise.engine.null import WallClock
from tests.serve.fakes import null_model
from tests.serve.live import live


def test_clients_see_each_token_and_what_the_server_counts() -> None:
    model = null_model(3, next_token=lambda history: ord("x"), clock=WallClock(), decode_s=0.002)
    with live(model) as server:

        async def use() -> tuple[Asked, Asked, list[Asked]]:
            async with client_of(server.url) as client:
                prompt = list(range(100))
                first, second = await ask(client, prompt, 20), await ask(client, prompt, 5, "emergency")
                ended = asyncio.Event()
                asyncio.get_running_loop().call_later(0.05, ended.set)
                many = await background(client, _Low(0), 2, 8, 4, ended)
                return first, second, many

        first, second, many = asyncio.run(use())
    assert (first.tokens, first.cached_tokens) == (20, 0)
    assert (second.tokens, second.cached_tokens) == (5, 98)
    assert 0 < first.ttft_s < first.duration_s
    assert len(many) >= 2
    assert all(one.tokens == 4 for one in many)


class _Low(Prompts):
    """Prompts of a model with a small vocabulary."""

    def new(self, tokens: int) -> list[int]:
        return [token % 256 for token in super().new(tokens)]


def test_tokens_within_a_time_are_counted_by_their_pieces() -> None:
    whole = Asked(0.0, [1.0, 2.0, 3.0, 4.0], tokens=8)
    cut = Asked(0.0, [2.5, 9.0])
    assert tokens_between([whole, cut], 2.0, 4.0) == pytest.approx(4 + 1)


def test_a_server_that_is_missing_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHIPWISE_LLAMA_SERVER", str(tmp_path))
    assert "--install" in (llama_server.missing() or "")
    for name in ("llama-server", "llama-quantize"):
        (tmp_path / name).touch()
    assert llama_server.missing() is None


def test_both_servers_get_as_many_places(tmp_path: Path) -> None:
    ours = Server("chipwise", "", tmp_path).command(4, 1, 2, 9000)
    theirs = Server("llama_server", "", tmp_path).command(4, 1, 2, 9000)
    assert ours[ours.index("--slots") + 1] == "4"
    assert ours[ours.index("--reserve") + 1] == "1"
    assert theirs[theirs.index("--parallel") + 1] == "5"
    assert theirs[theirs.index("--ctx-size") + 1] == str(5 * 1024)
