"""What the daemon's log says of its start."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp

from bench.demo.daemon import Daemon
from bench.ports import free_port
from tests.waiting import until

TOKEN = "token-of-the-daemon"


async def test_the_mode_that_is_said_is_the_one_in_force_that_a_restart_kept(tmp_path: Path) -> None:
    port = free_port()
    token = tmp_path / "token"
    await asyncio.to_thread(token.write_text, TOKEN)
    settings = {
        "engine": {"url": f"http://127.0.0.1:{free_port()}"},
        "api": {"port": port, "token_file": str(token)},
        "store": {"url": str(tmp_path / "history.db"), "commit_timeout_s": 10},
    }
    daemon = Daemon(tmp_path / "daemon", settings)
    for mode in ("observe", "paused"):
        daemon.start(mode="observe")

        def said(words: str = f"started: mode {mode}, ") -> bool:
            daemon.check()
            return daemon.log.exists() and words in daemon.log.read_text()

        await until(f"it says that it started in mode {mode}", said)
        async with (
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session,
            session.put(f"http://127.0.0.1:{port}/api/v1/mode", json={"mode": "paused"}) as answer,
        ):
            assert answer.status == 200, await answer.text()
        await daemon.stop()
