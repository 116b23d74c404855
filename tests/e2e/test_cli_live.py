"""Every command that talks to a daemon, end to end: this program, the REST API, a running daemon, a real vLLM."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from bench.demo.daemon import Daemon
from bench.load import Load, LoadOptions
from bench.ports import free_port
from bench.server import VllmServer
from controller.__main__ import main
from controller.engine.client import EngineClient

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
CAP = 64


class Said(NamedTuple):
    """What came of a command."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


class Live:
    """A daemon in mode manual beside the server; the tests that follow each other share it."""

    def __init__(self, server: VllmServer, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.token = folder / "token"
        self.token.write_text("token-of-the-daemon")
        engine = {"url": server.url, "token_file": str(server.token_file), "lease_s": 10.0}
        api = {"port": free_port(), "token_file": str(self.token)}
        base = {"tick_s": 0.5, "mode": "manual", "engine": engine, "api": api, "tariff": {"per_kwh": 0.8}}
        self.daemon = Daemon(folder, {**base, "store": {"url": str(folder / "history.db")}})

    def __call__(self, *arguments: str, code: int = 0) -> Said:
        """Run a command; its exit status must be `code`."""
        return self.run(*arguments, "--config", str(self.daemon.config), code=code)

    @staticmethod
    def run(*arguments: str, code: int = 0) -> Said:
        """As the console script does, in this process: starting Python anew each time takes seconds."""
        out, err, before = io.StringIO(), io.StringIO(), sys.argv
        sys.argv = ["vllm-governor", *arguments]
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                main()
            ended = 0
        except SystemExit as error:
            ended = error.code if isinstance(error.code, int) else 0
        finally:
            sys.argv = before
        said = Said(ended, out.getvalue(), err.getvalue())
        assert said.code == code, said
        return said

    def until(self, what: str, *arguments: str, words: str, limit_s: float = 60.0) -> Said:
        """Ask again until the answer holds these words."""
        end_s = time.monotonic() + limit_s
        while words not in (said := self(*arguments)).out:
            assert time.monotonic() < end_s, f"{what}: not within {limit_s:.0f} s: {said}"
            time.sleep(0.3)
        return said

    def knob(self, name: str) -> Any:
        """What the engine reads of it, as of the last tick."""
        rows = self("knobs", "--json").document["knobs"]
        return next(row["value"] for row in rows if row["name"] == name)


@pytest.fixture(scope="module")
def live(server: VllmServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    if not server.alive:
        asyncio.run(server.start())
    made = Live(server, tmp_path_factory.mktemp("cli"))
    made.daemon.start()
    try:
        _until_it_answers(made)
        asyncio.run(_serve(server))
        made.until("the engine answers", "status", "--json", words='"answers": true')
        yield made
    finally:
        asyncio.run(made.daemon.stop())
        asyncio.run(_reset(server))


def _until_it_answers(live: Live) -> None:
    end_s = time.monotonic() + 60.0
    while True:
        live.daemon.check()
        try:
            live("status")
        except AssertionError:
            assert time.monotonic() < end_s, live.daemon.log.read_text()
            time.sleep(0.5)
        else:
            return


async def _serve(server: VllmServer) -> None:
    """Some seconds of requests, so that there is something to tell."""
    async with Load(server.url, "tiny", LoadOptions(clients=8, limit_s=60)):
        await asyncio.sleep(8)


async def _reset(server: VllmServer) -> None:
    async with aiohttp.ClientSession() as session:
        client = EngineClient(session, server.url, server.token_file, 5.0)
        runtime = await client.runtime()
        await client.set_knobs(runtime, runtime.envelope, 1.0)


def test_status_says_what_runs_and_what_is_wrong(live: Live) -> None:
    said = live("status").out
    assert live.server.url in said
    assert "mode" in said
    assert "manual" in said
    assert "requests_per_s" in said
    document = live("status", "--json").document
    assert document["engine"]["answers"] is True
    assert {"problems", "signals", "ticks", "history"} <= document.keys()


def test_signals_come_with_their_meaning_and_by_name(live: Live) -> None:
    assert "Requests running, over all engine cores" in live("signals").out
    assert "inter_token_latency" in live("signals").out
    named = live("signals", "running", "--json").document
    assert [one["name"] for one in named["signals"]] == ["running"]


def test_a_knob_is_shown_overridden_and_given_back(live: Live) -> None:
    assert "max_num_seqs" in live("knobs").out
    said = live("set", "max_num_seqs=32", "--for", "30m", "--comment", "a test").out
    assert f"max_num_seqs: {CAP} -> 32, read back." in said
    assert "overridden for another 30 min" in said
    assert live.knob("max_num_seqs") == 32
    assert "max_num_seqs = 32 for another" in live("status").out
    assert "override: max_num_seqs = 32" in " ".join(live("knobs").out.split())
    assert "the override is lifted" in live("lift", "max_num_seqs").out
    assert "cannot lift the override" in live("lift", "max_num_seqs", code=1).err


def test_what_is_out_of_bounds_is_refused_with_the_bounds(live: Live) -> None:
    said = live("set", "max_num_seqs=9999", code=1).err
    assert "cannot set max_num_seqs: 9999 is not within 1 and 64" in said
    assert "the engine has no such knob" in live("set", "colour=3", code=1).err


def test_policies_are_switched_and_their_parameters_changed_and_taken_back(live: Live) -> None:
    assert "batch_resize" in live("policies", "list").out
    assert "shrink_factor" in live("policies", "show", "batch_resize").out
    assert "load_shed is off." in live("policies", "disable", "load_shed", "--comment", "a test").out
    assert live("policies", "show", "load_shed", "--json").document["enabled"] is False
    assert live("policies", "enable", "load_shed").out.startswith("load_shed is on")
    said = live("policies", "set", "batch_resize", "shrink_factor=0.8", "seed.growth_factor=1.4").out
    assert "batch_resize.shrink_factor = 0.8 at run time, the file says 0.85." in said
    assert "less than or equal to 0.95" in live("policies", "set", "batch_resize", "shrink_factor=7", code=1).err
    assert "shrink_factor = " not in live("policies", "reset", "batch_resize", "shrink_factor").out
    assert "all as the settings file says" in live("policies", "reset", "batch_resize").out
    assert "cannot" in live("policies", "show", "nobodys", code=1).err


def test_the_mode_is_shown_switched_and_given_back(live: Live) -> None:
    assert "Nothing is decided and nothing is changed" in live("mode").out
    said = live("mode", "observe", "--comment", "looking on").out
    assert "observe was set at run time" in said
    assert "(looking on); the settings file says manual" in said
    assert live("mode", "file").out == "Mode: manual.\n"
    assert "already" in live("mode", "file", code=1).err
    live("mode", "sleepy", code=2)


def test_a_purge_says_what_it_does_asks_and_is_done(live: Live) -> None:
    assert "there is no undo" in live("purge", "--dry-run").out
    assert "nobody is there to confirm it; add --yes" in live("purge", code=2).err
    assert "The purge was done: 50% of each engine core." in live("purge", "--ratio", "0.5", "--yes").out


def test_a_rollback_is_planned_done_and_undone(live: Live) -> None:
    before = live.knob("max_num_seqs")
    assert f"max_num_seqs: {before:g} -> 8" in live("rollback", "--dry-run").out
    said = live("rollback", "--comment", "a test").out
    assert "Rolled back since" in said
    assert "max_num_seqs = 8" in said
    assert live.knob("max_num_seqs") == 8
    assert live("rollback", "--dry-run").out == "A rollback is in force already.\n"
    assert f"max_num_seqs: 8 -> {before:g}" in live("undo", "--dry-run").out
    assert live("undo").out.startswith("No rollback is in force. Mode: manual.")
    assert live.knob("max_num_seqs") == before
    assert "none is in force" in live("undo", code=1).err


def test_decisions_are_listed_explained_and_the_same_as_the_history_itself_says(live: Live) -> None:
    history = ("--db", str(live.folder / "history.db"))
    asked = [json.loads(line) for line in live("decisions", "--changes", "--json").out.splitlines()]
    read = [json.loads(line) for line in live.run("decisions", "--changes", "--json", *history).out.splitlines()]
    assert asked
    assert [{**one, "outcome": None} for one in asked] == [{**one, "outcome": None} for one in read]
    override = next(one for one in asked if one["policy"] == "operator" and one["knob"] == "max_num_seqs")
    number = str(override["id"])
    assert len(live("decisions", "--limit", "1", "--json").out.splitlines()) == 1
    assert "max_num_seqs" in live("decisions", "--knob", "max_num_seqs").out
    words = live("explain", number).out
    assert f"Decision {number}" in words
    assert "read 32 back" in words
    assert "Measured in" in words or "Nothing that was measured" in words
    assert live("explain", number, "--json").document["knob"] == "max_num_seqs"
    assert "there is none of that number" in live("explain", "999999", code=1).err
    assert "did you mean grow_demand" in live("decisions", "--reason", "grow_demnad", code=2).err


def test_outcomes_cost_and_the_audit_tell_of_the_past(live: Live) -> None:
    assert "max_num_seqs" in live("outcomes", "--since", "1h").out
    assert live("outcomes", "--json").document["tallies"]
    assert "energy (kWh)" in live("cost", "--since", "1h").out
    made = live("cost", "--since", "1h", "--compare", "2h..1h", "--json").document
    assert (made["tariff"]["per_kwh"], len(made["columns"])) == (0.8, 2)
    assert live("cost", "--by", "max_num_seqs", "--json").document["columns"]
    audit = live("audit", "--since", "1h").out
    assert "knobs.set max_num_seqs" in audit
    assert "a test" in audit
    assert live("audit", "--json", "--limit", "1").document["actions"]


def test_a_replay_by_the_daemon_gives_the_decisions_that_were_made(live: Live) -> None:
    said = live("replay").out
    assert "recorded decisions came out as they were written" in said
    assert live("replay", "--json").document["not_reproduced"] == []
    tables = live.folder / "try.toml"
    tables.write_text("[policies.batch_resize]\nfloor = 4\n")
    assert "By knob" in live("replay", "--policy", str(tables)).out
    tables.write_text("[policies.batch_resize]\nflor = 4\n")
    assert "flor" in live("replay", "--policy", str(tables), code=1).err


def test_what_the_settings_say_is_shown_and_read_again(live: Live) -> None:
    assert live("settings").document["settings"]["mode"] == "manual"
    assert "token-of-the-daemon" not in live("settings").out
    assert "Read again" in live("reload").out
    before = live.daemon.config.read_text()
    live.daemon.config.write_text(before + "\n[guards]\nmax_raise_ratio = 0\n")
    # The file that the daemon reads is also where the command looks for it, so it is named otherwise.
    port = tomllib.loads(before)["api"]["port"]
    where = ("--url", f"http://127.0.0.1:{port}", "--token-file", str(live.token))
    assert "max_raise_ratio" in live.run("reload", *where, code=1).err
    live.daemon.config.write_text(before)
    assert "Read again" in live("reload").out


def test_nvml_is_let_go_of_and_taken_again(live: Live) -> None:
    assert live("gpu", "release").out == "NVML is let go of until `vllm-governor gpu take`.\n"
    assert "NVML is read again." in (said := live("gpu", "take").out) or said.startswith("Taken, but: ")


def test_alerts_are_listed_and_silenced(live: Live) -> None:
    assert "silences" in live("alerts", "list", "--json").document
    assert "Silence" in live("alerts", "silence", 'alertname="kv_cache_full"', "--for", "5m").out
    number = live("alerts", "list", "--json").document["silences"][0]["id"]
    assert "has ended" in live("alerts", "unsilence", str(number)).out
    assert "cannot" in live("alerts", "test", "nobody", code=1).err


def test_events_are_told_from_the_past_and_as_they_come(live: Live) -> None:
    past = live("events", "--no-follow").out
    assert "knobs.set" in past
    assert "rollback" in past
    ticks = live("events", "--kind", "tick", "--count", "2", "--json").out.splitlines()
    first, second = (json.loads(line) for line in ticks)
    assert second["data"]["number"] == first["data"]["number"] + 1
    again = live("events", "--kind", "tick", "--after", first["id"], "--count", "1", "--json")
    assert again.document["id"] == second["id"]


def test_top_draws_the_engine_the_knobs_and_the_last_changes(live: Live) -> None:
    said = live("top", "--once").out
    for words in ("load", "latency against objectives", "knobs", "last changes", "max_num_seqs", "mode manual"):
        assert words in said
    assert live("top", "--once", "--json").document["status"]["engine"]["answers"] is True
    picture = live.folder / "top.svg"
    assert f"Written: {picture}." in live("top", "--svg", str(picture)).out
    assert picture.read_text().startswith("<svg")
    assert "cannot write" in live("top", "--svg", "/proc/none/top.svg", code=1).err


def test_init_fits_its_settings_to_this_engine_and_the_daemon_takes_them(live: Live) -> None:
    path, token = live.folder / "init.toml", live.folder / "made-token"
    engine = ("--engine", live.server.url, "--engine-token-file", str(live.server.token_file))
    said = live.run("init", str(path), *engine, "--prometheus", "http://127.0.0.1:9", "--api-token-file", str(token))
    assert f"max_num_seqs {CAP}" in said.out
    made = tomllib.loads(path.read_text())
    assert (made["mode"], made["engine"]["url"]) == ("observe", live.server.url)
    assert "it is there already" in live.run("init", str(path), code=2).err
    db = ("--db", str(live.folder / "history.db"))
    assert "batch" in live.run("report", *db).out or live.run("report", *db, "--json").document
    assert live.run("report", "--config", str(live.daemon.config), "--json").document["watched"]["seconds"] > 0


def test_a_daemon_that_has_ended_is_told_with_its_remedy_and_exit_status_3(live: Live) -> None:
    os.kill(live.daemon.pid, signal.SIGTERM)
    end_s = time.monotonic() + 20.0
    while True:
        try:
            said = live("status", code=3).err
            break
        except AssertionError:
            assert time.monotonic() < end_s
            time.sleep(0.3)
    assert "cannot reach the daemon at http://127.0.0.1:" in said
    assert "start it with `vllm-governor run`" in said
