"""A replay decides as the daemon did, and shows where other settings would have decided otherwise."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from controller.__main__ import app
from controller.clock import Now
from controller.deciding.circumstances import Circumstances
from controller.engine.connections import Connections
from controller.history.comparing import WARM_UP_S, Comparing
from controller.history.replaying import Replay, overlaid
from controller.history.view_codec import Frame
from controller.loop import Loop
from controller.sensors.nvml import NvmlSensor
from controller.settings import EngineSettings, Settings
from domain.capacity import Capacity
from domain.decision import Mode
from domain.errors import SettingsError
from store.database import database_url
from store.history import History
from tests.fake_engine import FakeEngine
from tests.loop_rig import NoDriver
from tests.views import runtime, view
from tests.writers import locked, writing

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
BUDGET = "max_num_batched_tokens"


class Clock:
    """Each reading is a millisecond later, each tick a second."""

    def __init__(self) -> None:
        self.now = Now(1000.0, BEGAN)

    def __call__(self) -> Now:
        self.step(0.001)
        return self.now

    def step(self, seconds: float) -> None:
        self.now = Now(self.now.monotonic_s + seconds, self.now.wall + timedelta(seconds=seconds))


async def live(path: Path) -> None:
    """Two daemons, one after the other, and all that may happen to them."""
    engine, clock = FakeEngine(), Clock()
    engine.carry(BUDGET, 4096, 64, 4096)
    engine.carry("max_num_queued_reqs", None, 0, 100000)
    await engine.server.start_server()
    plain: dict[str, Any] = {"engine": {"url": engine.url}, "tick_s": 1.0}
    async with writing(path) as writer, Connections(EngineSettings(url=engine.url)) as connections:
        for _ in range(2):
            loop = Loop(Settings(**plain), connections, writer, NvmlSensor(driver=NoDriver()), clock)
            await loop.restore()
            await spend(loop, clock, 7)
            with locked(path):
                await spend(loop, clock, 10)
            await spend(loop, clock, 13)
            engine.metrics_status = 500
            await spend(loop, clock, 6)
            engine.metrics_status = None
            await loop.reconfigure(Settings(**plain, policies={"batch_resize": {"max_growth": 16}}))
            await spend(loop, clock, 20)
            await loop.roll_back()
            await spend(loop, clock, 4)
            await loop.undo()
            await spend(loop, clock, 4)
            engine.ignore_patches = True
            await spend(loop, clock, 12)
            engine.ignore_patches = False
            engine.restart()
            await spend(loop, clock, 12)
            await loop.reconfigure(Settings(**plain, mode="observe", policies={"batch_resize": {"floor": 4}}))
            await spend(loop, clock, 12)
            await loop.close()
            engine.boot_id, engine.cap, engine.running = "boot-a", 8, 8
    await engine.server.close()


async def spend(loop: Loop, clock: Clock, count: int) -> None:
    for _ in range(count):
        clock.step(1.0)
        await loop.tick()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay") / "history.db"
    asyncio.run(live(path))
    return path


def replay(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["replay", "--db", str(path), *arguments])


def found(path: Path, *arguments: str) -> dict[str, Any]:
    result = replay(path, "--json", *arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    parsed: dict[str, Any] = json.loads(result.output)
    return parsed


def policy_file(folder: Path, text: str) -> str:
    path = folder / "try.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_with_the_settings_of_then_every_recorded_decision_comes_out_as_it_was_written(recorded: Path) -> None:
    answer = found(recorded)
    assert answer["not_reproduced"] == []
    assert answer["reproduced"] == answer["recorded_decisions"] > 40
    assert answer["warm_up_ticks"] == 0
    assert answer["ticks"] > 180
    assert {knob: one["differing_ticks"] for knob, one in answer["knobs"].items()}.keys() >= {"max_num_seqs", BUDGET}
    assert not any(one["differing_ticks"] for one in answer["knobs"].values())


def test_two_replays_are_the_same_to_the_last_byte(recorded: Path, tmp_path: Path) -> None:
    file = policy_file(tmp_path, "[policies.batch_resize]\nmax_growth = 24\n")
    for arguments in ((), ("--json",), ("--policy", file), ("--policy", file, "--json")):
        assert replay(recorded, *arguments).output == replay(recorded, *arguments).output


def test_other_settings_differ_where_they_decide_otherwise_and_only_there(recorded: Path, tmp_path: Path) -> None:
    answer = found(recorded, "--policy", policy_file(tmp_path, "[policies.batch_resize]\nenabled = false\n"))
    cap = answer["knobs"]["max_num_seqs"]
    assert cap["changes"]["replayed"] < cap["changes"]["recorded"]
    assert cap["differing_ticks"] > 0
    assert all(span["recorded"] != span["replayed"] for span in cap["timeline"])
    assert sum(span["ticks"] for span in cap["timeline"]) == cap["differing_ticks"]
    assert answer["knobs"][BUDGET]["differing_ticks"] == 0


def test_the_first_difference_is_told_with_both_sentences(recorded: Path, tmp_path: Path) -> None:
    file = policy_file(tmp_path, "[policies.batch_resize]\nmax_growth = 24\n[guards]\nmax_raise_ratio = 10\n")
    answer = found(recorded, "--policy", file)
    first = answer["knobs"]["max_num_seqs"]["timeline"][0]
    assert first["recorded"]["requested"] != first["replayed"]["requested"]
    assert "Growing" in first["recorded"]["sentence"]
    assert "Growing" in first["replayed"]["sentence"]
    table = replay(recorded, "--policy", file)
    assert table.exit_code == 0
    assert "what another value would have led to is not played" in table.output


def test_since_leaves_out_what_was_before(recorded: Path) -> None:
    later = found(recorded, "--since", "2026-01-01T12:01:00")
    assert later["begin"] >= "2026-01-01T12:01:00"
    assert later["not_reproduced"] == []
    assert later["reproduced"] > 0


def test_a_replay_that_does_not_come_out_as_it_was_written_is_status_1(recorded: Path, tmp_path: Path) -> None:
    import sqlite3

    forged = tmp_path / "forged.db"
    forged.write_bytes(recorded.read_bytes())
    with sqlite3.connect(forged) as database:
        database.execute("UPDATE decisions SET sentence = 'Something else.' WHERE id = (SELECT max(id) FROM decisions)")
    result = replay(forged, "--json")
    assert result.exit_code == 1
    assert len(json.loads(result.output)["not_reproduced"]) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[policies.batch_resize]\nmax_grwth = 8\n", "policies.batch_resize.max_grwth"),
        ("[policies.batch_resize]\nmax_growth = 0\n", "policies.batch_resize.max_growth"),
        ("mode = 'auto'\n", "mode"),
        ("[policies.batch_resize\n", "cannot understand the policy file"),
    ],
)
def test_settings_that_cannot_be_tried_are_named(recorded: Path, tmp_path: Path, text: str, said: str) -> None:
    result = replay(recorded, "--policy", policy_file(tmp_path, text))
    assert isinstance(result.exception, SettingsError)
    assert said in str(result.exception)


def test_a_history_without_recordings_is_said(tmp_path: Path) -> None:
    async def empty() -> None:
        history = History(database_url(str(tmp_path / "empty.db")))
        await history.open()
        await history.close()

    asyncio.run(empty())
    assert "nothing is recorded" in str(replay(tmp_path / "empty.db").exception)


def test_tables_are_laid_over_key_by_key_and_leave_those_below_alone() -> None:
    below = {"a": {"x": 1, "y": {"z": 2}}, "b": 1}
    assert overlaid(below, {"a": {"y": {"w": 3}}, "b": {"c": 4}}) == {
        "a": {"x": 1, "y": {"z": 2, "w": 3}},
        "b": {"c": 4},
    }
    assert below == {"a": {"x": 1, "y": {"z": 2}}, "b": 1}


# --- without a history: what is compared, and from when on

NOW = Circumstances(Mode.AUTO, BEGAN.isoformat(), 1, 1.0, {}, {"warm_up_s": 0})
busy = partial(view, running=8.0, waiting=20.0, demand=20.0)


def frames(count: int, **changes: Any) -> list[Frame]:
    return [Frame(BEGAN + timedelta(seconds=tick), busy(1000.0 + tick, **changes)) for tick in range(count)]


def test_a_recording_that_begins_in_the_middle_is_run_for_a_while_before_it_is_compared() -> None:
    comparing = Comparing([], Replay(), None, None)
    long_ago = replace(NOW, daemon=(BEGAN - timedelta(days=1)).isoformat())
    for frame in frames(int(WARM_UP_S) + 5):
        comparing.take(frame, long_ago)
    assert (comparing.found.warm_up, comparing.found.ticks) == (WARM_UP_S, 5)


def test_the_effect_is_what_the_model_predicts_for_both_values(monkeypatch: pytest.MonkeyPatch) -> None:
    trusted = Capacity(0.01, 0.0, 0.00001, 0.0, 50, trusted=True, why="", request_context=100.0)
    monkeypatch.setattr("policies.capacity.model", lambda *_: trusted)
    comparing = Comparing([], Replay(), Replay(tables={"batch_resize": {"max_growth": 16}}), None)
    rates = {"prompt_tokens_per_s": 0.0, "generation_tokens_per_s": 100.0}
    for frame in frames(8, runtime=runtime(cap=24, running=24), running=24.0, **rates):
        comparing.take(frame, NOW)
    report = comparing.found.knobs["max_num_seqs"]
    first = report.spans[0]
    assert (first.in_force, first.recorded and first.recorded.wanted, first.replayed and first.replayed.wanted) == (
        24,
        32,
        40,
    )
    effect = report.effect
    assert effect.ticks == report.differing > 0
    assert effect.step_s / effect.ticks == pytest.approx(0.01 + 32 * 100 * 0.00001)
    assert effect.step_s_replayed / effect.ticks == pytest.approx(0.01 + 40 * 100 * 0.00001)
    assert effect.tokens_per_s_replayed > effect.tokens_per_s


def test_where_the_model_says_nothing_the_effect_is_unknown_and_says_why() -> None:
    comparing = Comparing([], Replay(), Replay(tables={"batch_resize": {"max_growth": 16}}), None)
    for frame in frames(8, runtime=runtime(cap=24, running=24), running=24.0):
        comparing.take(frame, NOW)
    effect = comparing.found.knobs["max_num_seqs"].effect
    assert effect.ticks == 0
    assert set(effect.unknown) == {"no capacity model was fitted"}


def test_a_change_that_only_the_replay_made_is_no_failure_of_the_engines() -> None:
    comparing = Comparing([], Replay(), Replay(tables={"batch_resize": {"max_growth": 16}}), None)
    # The engine as recorded stays at 24, so what the replay asks for is never seen in force.
    for frame in frames(30, runtime=runtime(cap=24, running=24)):
        comparing.take(frame, NOW)
    spans = comparing.found.knobs["max_num_seqs"].spans
    said = [guard for span in spans if span.replayed is not None for guard in span.replayed.guards]
    assert spans
    assert not any("without effect" in guard for guard in said)
