"""The live page in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report import browser as browsers
from tests.serve.api.test_live_page import ASKED, hot_board
from tests.serve.fakes import null_model, says
from tests.serve.live import live


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_page_in_a_browser(chromium: str, tmp_path: Path, width: int, dark: bool) -> None:
    hardware, _ = hot_board()
    with (
        live(null_model(next_token=says("hello")), hardware=hardware) as server,
        browsers.browser(chromium, tmp_path) as opened,
    ):
        server.http.post("/v1/completions", json=ASKED, headers={"X-Priority": "emergency"})
        shown = browsers.show_url(opened, f"{server.url}/", width=width, dark=dark)
        assert shown.sections() == ["serving", "model", "requests", "policy", "board"]
        # Itself only, and the icon that is in it.
        assert {url for url in shown.requests if not url.startswith("data:")} == {f"{server.url}/"}
        assert shown.complaints == []
        assert shown.overlaps() == []
        assert shown.clipped() == []
        assert shown.faint(4.5) == []
        wide = shown.ask("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide == 0
        # It is read again by itself, and then shows what has come meanwhile.
        server.http.post("/v1/completions", json=ASKED, headers={"X-Priority": "emergency"})
        shown.page.wait_for_function("() => document.body.innerText.includes('length\\t2')", timeout=10_000)
