"""Every `vllm-governor` command that the docs and `--help` show is run, beside a daemon that has something to tell.

What a reader puts in their own place is put in: files, the database, the node, numbers of decisions and silences. Not
run here: `run`, by which the daemon of this module is started, and what follows for ever or puts files on the machine
(test_supervised.py, test_operator_sentences.py, tests/unit/systemd/test_install.py). Never: what a command says.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from typer.testing import CliRunner

from bench.demo.daemon import Daemon
from bench.ports import free_port
from controller.__main__ import app
from tests.fake_engine import FakeEngine
from tests.listener import listening
from tests.unit.test_docs_commands import EXAMPLES
from tests.virtual_time import VirtualClock
from tests.waiting import until

TOKEN = "token-of-the-daemon"
NODE = "gpu1:8000"
ELSEWHERE = r"run( --config \S+)?|top( --interval 5 --json)?|events(?!.*--no-follow).*|(un)?install.*"
LINES = sorted({line for _, line in EXAMPLES if "--help" not in line and not re.fullmatch(ELSEWHERE, line)})
BEFORE = {
    "alerts unsilence": "alerts silence 'severity=\"info\"' --for 1d",
    "lift": "set max_num_seqs=32",
    "mode file": "mode manual",
    "policies reset": "policies set batch_resize shrink_factor=0.8",
    "purge": "mode auto",
    "set": "undo",
    "undo": "rollback",
}
"""What has to be done first: there would be nothing to take back, or the mode would not allow it."""
STATUSES: Mapping[str, set[int]] = {"check": {0, 1, 2}}
"""Else 0: the rest find nothing amiss."""


@dataclass(frozen=True, slots=True)
class Place:
    """One daemon with its files."""

    folder: Path
    config: Path
    base: str

    async def asked(self, path: str) -> Any:
        async with aiohttp.ClientSession() as session, session.get(f"{self.base}{path}") as answer:
            return await answer.json() if answer.status == 200 else None


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    engine, port = FakeEngine(), free_port()
    engine.carry("max_num_queued_reqs", 64, 0, 1000)
    await engine.server.start_server()
    for name in ("token", "api-token"):
        write(tmp_path / name, TOKEN)
    write(tmp_path / "try.toml", "[policies.batch_resize]\ngrowth_factor = 1.4\n")
    async with listening(VirtualClock()) as webhook:
        settings = {
            "tick_s": 0.5,
            "guards": {"warm_up_s": 0},
            "engine": {"url": engine.url},
            "api": {"port": port, "token_file": str(tmp_path / "api-token")},
            "store": {"url": str(tmp_path / "history.db"), "node": NODE},
            "alerts": {"receivers": {"ops": {"kind": "webhook", "url": webhook.url}}},
        }
        daemon = Daemon(tmp_path / "daemon", settings)
        daemon.start(mode="auto")
        made = Place(tmp_path, daemon.config, f"http://127.0.0.1:{port}")
        monkeypatch.setenv("VLLM_GOVERNOR_CONFIG", str(made.config))
        monkeypatch.chdir(tmp_path)

        async def something_to_tell() -> bool:
            daemon.check()
            try:
                found = await made.asked("/api/v1/decisions?changes=true&status=applied")
            except aiohttp.ClientError:
                return False
            return found is not None and bool(found["decisions"])

        await until("something was decided", something_to_tell)
        yield made
        await daemon.stop()
    await engine.server.close()


def write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o600)


def put_in(line: str, place: Place, decision: int, silence: int) -> list[str]:
    """The words of a line, with what is this reader's own."""
    words = shlex.split(line)
    if words[0] == "init":
        return own_init(words, place)
    for name, value in (("--db", place.folder / "history.db"), ("--node", NODE), ("--config", place.config)):
        words = [str(value) if before == name else word for before, word in zip(["", *words], words, strict=False)]
    own = {"/etc/vllm-governor/config.toml": str(place.config)}
    if words[0] == "at":
        own[words[1]] = "1s"
    if words[0] == "explain":
        own[words[1]] = str(decision)
    if words[:2] == ["alerts", "unsilence"]:
        own[words[2]] = str(silence)
    return [own.get(word, word) for word in words]


def own_init(words: list[str], place: Place) -> list[str]:
    """Into a new folder, with the tokens that are there."""
    folder = place.folder / f"init-{len([*place.folder.glob('init-*')])}"
    folder.mkdir()
    named = [word for word in words[1:] if word.endswith(".toml")]
    tokens = {"--engine-token-file": place.folder / "token", "--api-token-file": place.folder / "api-token"}
    options = [part for name, file in tokens.items() if name in words for part in (name, str(file))]
    if "--store" in words:
        options += ["--store", str(folder / "history.db")]
    return ["init", str(folder / Path(*named).name if named else folder / "vllm-governor.toml"), *options]


async def run(words: list[str]) -> tuple[int, str]:
    done = await asyncio.to_thread(CliRunner().invoke, app, words)
    failed = done.exception is not None and not isinstance(done.exception, SystemExit)
    return done.exit_code, f"{words}: {done.exception if failed else ''} {done.output}"


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_every_command_that_is_told_to_be_given_does_its_work(place: Place) -> None:
    failed = []
    for line in LINES:
        name = next((one for one in BEFORE if f"{line} ".startswith(f"{one} ")), None)
        if name is not None:
            await run(shlex.split(BEFORE[name]))
        decisions = (await place.asked("/api/v1/decisions?changes=true&status=applied"))["decisions"]
        silences = (await place.asked("/api/v1/silences"))["silences"]
        words = put_in(line, place, decisions[-1]["id"], silences[-1]["id"] if silences else 0)
        status, said = await run(words)
        if status not in STATUSES.get(words[0], {0}):
            failed.append(f"{status} {said}")
    assert not failed, "\n".join(failed)
