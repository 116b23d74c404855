"""The dashboard as an operator uses it: what to press, what to wait for.

Belongs here: the page's parts by name. Never: what a test says of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from playwright.async_api import Page

from tests.browser import Watched
from tests.waiting import PATIENCE_S

SLOW_MS = PATIENCE_S * 1000
"""The engine, the load, the daemon and the browser share few cores."""
LINES = (
    "() => [...document.querySelectorAll('.js-plotly-plot')].map((plot) => plot.data.map((line) => [line.x, line.y]))"
)
SHIFTS = """() => new Promise((done) => {
    let sum = 0;
    new PerformanceObserver((list) => {
        for (const shift of list.getEntries()) sum += shift.value;
    }).observe({ type: "layout-shift", buffered: false });
    setTimeout(() => done(sum), 5000);
})"""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One open page."""

    watched: Watched
    url: str

    @property
    def page(self) -> Page:
        return self.watched.page

    async def open(self) -> None:
        """Until everything has been read."""
        await self.page.goto(self.url, wait_until="commit", timeout=SLOW_MS)
        await self.read()

    async def reload(self) -> None:
        """The same, once more."""
        await self.page.reload(wait_until="commit", timeout=SLOW_MS)
        await self.read()

    async def read(self) -> None:
        """Until it is live and everything has been read."""
        await self.live()
        await self.page.wait_for_selector("[data-lane=max_num_seqs]", timeout=SLOW_MS)
        await self.page.wait_for_selector("#mode[data-mode]", timeout=SLOW_MS)

    async def live(self) -> None:
        await self.page.wait_for_selector("html[data-connection=live]", timeout=SLOW_MS)

    async def lost(self) -> None:
        await self.page.wait_for_selector("html[data-connection=lost]", timeout=SLOW_MS)

    async def lines(self) -> list[Any]:
        """Of each chart the lines, each as its times and values."""
        return list(await self.page.evaluate(LINES))

    async def text(self, selector: str) -> str:
        return await self.page.inner_text(selector)

    async def ask(self, button: str) -> str:
        """Press a button that opens the dialog; what it says will happen, once it can be confirmed."""
        await self.page.click(button)
        await self.page.wait_for_selector("#dialog button[type=submit]:enabled", timeout=SLOW_MS)
        return await self.text("#dialog")

    async def confirm(self, token: str | None = None) -> None:
        """Give the token where one is asked for, confirm, and wait until the dialog is gone."""
        if token is not None:
            await self.page.fill("#dialog input[name=token]", token)
        await self.page.click("#dialog button[type=submit]")
        await self.page.wait_for_selector("#dialog:not([open])", state="attached", timeout=SLOW_MS)

    async def shifts(self) -> float:
        """How much the layout moved by itself in five seconds (Chromium's own measure)."""
        return float(await self.page.evaluate(SHIFTS))
