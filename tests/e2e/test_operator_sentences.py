"""A wrong or partial settings file, a second daemon, a dead engine, a full disk: REST, command line and dashboard each
tell the operator the cause and the remedy, of a daemon that goes on.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bench.demo.daemon import Daemon
from tests import disks
from tests.browser import Watched, chromium, page
from tests.e2e.dashboard_page import SLOW_MS, Dashboard
from tests.e2e.test_stop import running, status
from tests.fake_engine import FakeEngine
from tests.waiting import PATIENCE_S, until

PROGRAM = (sys.executable, "-m", "controller")
MISSPELT = 'mode = "auto"\n[engine]\nurk = "http://127.0.0.1:8000"\n'
PARTIAL = 'mode = "observe"\n[engine]\nurl = "http://127.'
"""As an editor leaves a file that it is still writing."""


class Faces:
    """The three faces of one daemon."""

    def __init__(self, url: str, session: aiohttp.ClientSession, watched: Watched) -> None:
        self.url, self._session, self._watched = url, session, watched

    async def problem(self, what: str) -> dict[str, Any]:
        """What the REST API says of it, once it does."""
        found: list[dict[str, Any]] = []

        async def told() -> bool:
            document = await status(self._session, self.url)
            found[:] = [one for one in document.get("problems", ()) if one["what"] == what]
            return bool(found)

        await until(f"the REST API tells of {what}", told)
        return found[0]

    async def all_say(self, what: str, reason: str, remedy: str) -> None:
        """Each face says this reason and this remedy of the problem."""
        problem = await self.problem(what)
        assert reason in problem["reason"]
        assert remedy in problem["remedy"]
        # What counts seconds goes on between two looks.
        assert reason in (printed := await self.command("status"))
        assert remedy in printed
        await self._dashboard(what, reason, remedy)

    async def command(self, *arguments: str, code: int = 0) -> str:
        """What a command prints, as one line."""
        process = await asyncio.create_subprocess_exec(
            *PROGRAM, *arguments, "--url", self.url, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        out, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
        said = " ".join(out.decode().split())
        assert process.returncode == code, said
        return said

    async def _dashboard(self, what: str, reason: str, remedy: str) -> None:
        dashboard = Dashboard(self._watched, f"{self.url}/")
        await dashboard.page.goto(dashboard.url, wait_until="commit", timeout=SLOW_MS)
        await dashboard.live()
        await dashboard.page.wait_for_selector("#strip:is([data-kind=warn], [data-kind=bad])", timeout=SLOW_MS)
        await dashboard.page.click("#strip")
        entry = dashboard.page.locator("#drawer .problem", has=dashboard.page.locator("h4", has_text=what))
        listed = entry.filter(has_text=reason).filter(has_text=remedy)
        await listed.first.wait_for(timeout=SLOW_MS)


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    made = FakeEngine()
    made.names_holder = True
    await made.server.start_server()
    yield made
    await made.server.close()


@asynccontextmanager
async def faced(folder: Path, engine: FakeEngine, **settings: Any) -> AsyncIterator[tuple[Daemon, Faces]]:
    """A daemon that has met the engine, and its faces."""
    async with (
        aiohttp.ClientSession() as session,
        running(folder / "daemon", engine, **settings) as (daemon, url),
        chromium(folder) as browser,
        page(browser) as watched,
    ):

        async def met() -> bool:
            return bool((await status(session, url)).get("engine", {}).get("answers"))

        await until("the daemon has met the engine", met)
        yield daemon, Faces(url, session, watched)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (MISSPELT, "cannot use the setting engine.urk (from"),
        (PARTIAL, "cannot understand the settings file"),
    ],
    ids=["wrong", "partial"],
)
async def test_a_settings_file_that_cannot_be_used_leaves_the_old_one_in_force_and_all_faces_say_why(
    engine: FakeEngine, tmp_path: Path, text: str, reason: str
) -> None:
    token = tmp_path / "token"
    token.write_text("token-of-the-daemon")
    async with faced(tmp_path, engine) as (daemon, faces):
        daemon.config.write_text(text)
        os.kill(daemon.pid, signal.SIGHUP)
        await faces.all_say("settings", reason, "the old settings stay; put the file right and reload")
        assert (await faces.problem("settings"))["reason"].count(str(daemon.config)) >= 1
        said = await faces.command("reload", "--token-file", str(token), code=1)
        assert "cannot" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (MISSPELT, "cannot use the setting engine.urk (from {path} and the environment): there is no such key; did"),
        (PARTIAL, "cannot understand the settings file {path}: "),
        (None, "cannot read the settings file {path}: No such file or directory"),
    ],
    ids=["wrong", "partial", "absent"],
)
def test_a_daemon_does_not_start_with_it_and_says_why(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "governor.toml"
    if text is not None:
        path.write_text(text)
    command = [*PROGRAM, "run", "--config", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert said.format(path=path) in " ".join(done.stderr.split())


async def test_a_second_daemon_only_observes_and_all_its_faces_say_which_one_steers(
    engine: FakeEngine, tmp_path: Path
) -> None:
    async with running(tmp_path / "first", engine) as (first, _):
        await until("the first daemon steers", lambda: engine.holder is not None)
        async with faced(tmp_path, engine) as (_, faces):
            await faces.all_say("lease", f"process {first.pid} on ", "stop one of the two; this one takes over as soon")
            assert "observe" in await faces.command("mode")


async def test_an_engine_that_died_is_told_with_its_address_and_how_to_bring_it_back(
    engine: FakeEngine, tmp_path: Path
) -> None:
    async with faced(tmp_path, engine) as (_, faces):
        url = engine.url.rstrip("/")
        await engine.server.close()
        await faces.all_say("engine", f"cannot reach vLLM at {url}", "start vLLM with the governor's plugin at")


async def test_a_full_disk_is_told_until_there_is_room_again(engine: FakeEngine, tmp_path: Path) -> None:
    (disk := tmp_path / "disk").mkdir()
    with disks.small_disk(disk):
        store = {"url": str(disk / "history.db")}
        async with faced(tmp_path, engine, store=store) as (_, faces):
            filler = disks.fill(disk)
            await faces.all_say("history", "database or disk is full", "make room on its disk, or raise store.max_mb")
            filler.unlink()
            await until("all is well again", _well(faces))


def _well(faces: Faces) -> Callable[[], Awaitable[bool]]:
    async def well() -> bool:
        return "database or disk is full" not in await faces.command("status")

    return well
