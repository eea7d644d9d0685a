"""A page in a real browser: what is asked of every page that chipwise writes, whatever is on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

_CHECKS = (Path(__file__).parent / "page_checks.js").read_text("utf-8")

_QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@contextmanager
def browser(program: str, folder: Path) -> Iterator[Browser]:
    """Chromium without a window, with a profile of its own."""
    with sync_playwright() as driver:
        options = {"executable_path": program, "args": list(_QUIET), "env": {"HOME": str(folder)}}
        opened = driver.chromium.launch(**options)  # type: ignore[arg-type]
        yield opened
        opened.close()


@dataclass
class Shown:
    """A page that is open, and what it asked for and complained of."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def ask(self, script: str) -> Any:
        return self.page.evaluate(script)

    def _check(self, name: str) -> Any:
        return self.ask(f"() => {{ {_CHECKS} return checks.{name}(); }}")

    def overlaps(self) -> list[str]:
        return list(self._check("overlaps"))

    def clipped(self) -> list[str]:
        return list(self._check("clipped"))

    def texts_on_each_other(self) -> list[str]:
        return list(self._check("textsOnEachOther"))

    def faint(self, least: float) -> list[str]:
        return [f"{ratio:.2f} {name}" for ratio, name in self._check("contrasts") if ratio < least]

    def background(self) -> str:
        return str(self.ask("() => getComputedStyle(document.body).backgroundColor"))

    def sections(self) -> list[str]:
        script = "() => [...document.querySelectorAll('section')].filter(e => e.checkVisibility()).map(e => e.id)"
        return list(self.ask(script))


def show(opened: Browser, path: Path, *, width: int = 1280, height: int = 800, dark: bool = False) -> Shown:
    """Open a file."""
    return show_url(opened, path.as_uri(), width=width, height=height, dark=dark)


def show_url(opened: Browser, url: str, *, width: int = 1280, height: int = 800, dark: bool = False) -> Shown:
    """Open a page, wherever it is."""
    page = opened.new_page(viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light")
    shown = Shown(page)
    page.on("request", lambda request: shown.requests.append(request.url))
    page.on("console", lambda message: shown.complaints.append(message.text))
    page.on("pageerror", lambda error: shown.complaints.append(str(error)))
    page.goto(url)
    return shown
