"""A real headless Chromium for tests of the dashboard, driven by playwright; nothing is downloaded by it.

Belongs here: starting it with its libraries and letters, a page whose every complaint is kept. Never: what a test looks
for.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright

from bench.setup import debian
from tests.programs import need
from tests.waiting import PATIENCE_S

PROGRAM = "chromium-headless-shell"
DESK = (1440, 900)
PHONE = (390, 844)
FONTS = """<?xml version="1.0"?>
<fontconfig>
  <dir>{extracted}/usr/share/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>{cache}</cachedir>
  <alias binding="strong"><family>system-ui</family><prefer><family>Inter</family></prefer></alias>
  <alias><family>sans-serif</family><prefer><family>Inter</family><family>WenQuanYi Micro Hei</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""


@dataclass
class Watched:
    """A page, and what it complained of: errors of scripts, of the console, of the Content-Security-Policy."""

    page: Page
    errors: list[str] = field(default_factory=list)

    def heard(self, message: ConsoleMessage) -> None:
        """Keep what is worth a person's look."""
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.type}: {message.text}")


@asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Browser]:
    """The browser; `folder` takes its list of letters. Skips where there is none."""
    program = need(PROGRAM)
    environment: dict[str, str | float | bool] = dict(os.environ)
    if (root := debian.extracted_root(program)) is not None:
        fonts = folder / "fonts.conf"
        fonts.write_text(FONTS.format(extracted=root, cache=folder / "fonts"), encoding="utf-8")
        folders = debian.libraries(root)
        inner = [each for one in folders for each in one.iterdir() if each.is_dir()]  # pulseaudio keeps some there
        paths = [*map(str, folders + inner), os.environ.get("LD_LIBRARY_PATH", "")]
        environment |= {"FONTCONFIG_FILE": str(fonts), "LD_LIBRARY_PATH": ":".join(filter(None, paths))}
        # The package's own start script leads to the installed place.
        program = root / "usr/lib/chromium" / PROGRAM
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program,
            env=environment,
            args=["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"],
        )
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def page(
    browser: Browser, size: tuple[int, int] = DESK, *, dark: bool = True, language: str = "en-GB"
) -> AsyncIterator[Watched]:
    """A page of its own, without what another one kept."""
    context: BrowserContext = await browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        device_scale_factor=2 if size[0] == PHONE[0] else 1,
        color_scheme="dark" if dark else "light",
        locale=language,
        timezone_id="UTC",
        has_touch=size[0] == PHONE[0],
    )
    context.set_default_timeout(PATIENCE_S * 1000)
    try:
        watched = Watched(await context.new_page())
        watched.page.on("console", watched.heard)
        watched.page.on("pageerror", lambda error: watched.errors.append(f"script: {error}"))
        yield watched
    finally:
        await context.close()
