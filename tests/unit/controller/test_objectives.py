"""Which objectives are in force when, on virtual time; and that a proposal outlives the daemon."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from controller.history.memory import Memory as KeptMemory
from controller.objectives import buckets
from controller.objectives.chooser import Objectives
from controller.settings import Settings
from domain.decision import Decision, Mode, Reason, Status
from domain.errors import HistoryUnavailable
from domain.histogram import Histogram
from domain.runtime import EngineRuntime
from domain.slo import Latency, Slo
from domain.snapshot import Snapshot
from domain.view import View
from tests.views import runtime
from tests.writers import writing

BEGIN = datetime(2026, 3, 4, 12, tzinfo=UTC)  # a Wednesday
BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, math.inf)
PROPOSE = {"warm_up_s": 5, "settle_s": 2, "min_quiet_s": 20, "min_samples": 100, "busy_s": 60}
ITL = Slo(Latency.ITL, 95, 0.05, proposed=True)


def histogram(at_most: float, samples: float = 10.0) -> Histogram:
    counts = tuple(samples if bound >= at_most else 0.0 for bound in BOUNDS)
    return Histogram(BOUNDS, counts, at_most * samples)


SEEN = {Latency.TTFT: histogram(0.1), Latency.ITL: histogram(0.025, 200.0), Latency.E2E: histogram(0.5)}


class Memory:
    """A history's memory that can fail."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.broken = False

    def put(self, name: str, at: datetime, value: Mapping[str, Any] | None) -> None:
        self.values[name] = json.dumps(value)

    async def get(self, name: str) -> Mapping[str, Any] | None:
        if self.broken:
            raise HistoryUnavailable("cannot use the history: disk full")
        return json.loads(self.values[name]) if name in self.values else None


def settings(**values: Any) -> Settings:
    slo: Any = {"propose": PROPOSE} | values.pop("slo", {})
    return Settings(slo=slo, time_zone="UTC", **values)


class Rig:
    """One daemon's objectives, a second a tick."""

    def __init__(self, memory: Any = None, engine: EngineRuntime | None = None, **values: Any) -> None:
        self.memory = memory if memory is not None else Memory()
        self.engine = engine if engine is not None else runtime()
        self.objectives = Objectives(self.memory, settings(**values))
        self.at, self.now_s = BEGIN, 100.0
        self.slos: tuple[Slo, ...] = ()
        self.turns: list[bool] = []

    async def ticks(self, count: int, **changes: Any) -> list[Decision]:
        noted: list[Decision] = []
        for _ in range(count):
            snapshot = Snapshot(self.now_s, self.at, runtime=changes.get("runtime", self.engine))
            self.slos = await self.objectives.now(snapshot)
            self.turns.append(self.objectives.turn(self.at))
            values: dict[str, Any] = {"completed": SEEN, "completed_s": 1.0, "running": 2.0, "demand": 0.0}
            values |= {"latencies": SEEN, "preemptions_per_s": 0.0, "runtime": self.engine} | changes
            view = View(self.now_s, slos=self.slos, **values)
            noted += self.objectives.learn(snapshot, view, Mode.AUTO)
            self.now_s, self.at = self.now_s + 1.0, self.at + timedelta(seconds=1)
        return noted


async def test_without_a_configured_objective_one_is_proposed_from_quiet_minutes_and_noted_once() -> None:
    rig = Rig()
    assert await rig.ticks(20) == []
    assert not rig.slos
    (noted,) = await rig.ticks(40)
    assert ITL in rig.slos
    assert all(slo.proposed for slo in rig.slos)
    assert (noted.status, noted.reason, noted.knob) == (Status.NOTED, Reason.SLO_PROPOSED, "slo")
    assert noted.boot_id == "boot-a"
    assert noted.evidence["inter_token_latency_bound_s"] == 0.05
    assert "20 s of quiet load (200 requests)" in noted.sentence


async def test_a_restarted_daemon_takes_the_proposal_up_at_once(tmp_path: Path) -> None:
    async with writing(tmp_path / "history.db") as writer:
        before = Rig(KeptMemory(writer, 10.0))
        await before.ticks(40)
    async with writing(tmp_path / "history.db") as writer:
        after = Rig(KeptMemory(writer, 10.0))
        assert await after.ticks(1) == []
        assert after.slos == before.slos != ()


async def test_another_boot_with_the_same_start_up_values_keeps_it() -> None:
    rig = Rig()
    await rig.ticks(40)
    proposed, rig.engine = rig.slos, runtime(boot_id="boot-b")
    assert await rig.ticks(40, completed={}) == []
    assert rig.slos == proposed


async def test_another_boot_with_other_start_up_values_is_proposed_anew() -> None:
    rig = Rig()
    await rig.ticks(40)
    rig.engine = runtime(boot_id="boot-b", maximum=128)
    await rig.ticks(1)
    assert rig.slos == ()
    slower = {**SEEN, Latency.ITL: histogram(0.1, 200.0)}
    assert len(await rig.ticks(40, completed=slower)) == 1
    assert Slo(Latency.ITL, 95, 0.25, proposed=True) in rig.slos


async def test_another_engine_or_other_settings_of_the_proposal_are_proposed_for_anew() -> None:
    rig = Rig()
    await rig.ticks(40)
    for other in (
        settings(engine={"url": "http://other:8000"}),
        settings(slo={"propose": {**PROPOSE, "percentile": 99}}),
    ):
        rig.objectives.configure(other)
        await rig.ticks(1)
        assert rig.slos == ()
        await rig.ticks(40)
        assert rig.slos != ()


async def test_a_reload_with_the_same_settings_keeps_it_and_says_nothing() -> None:
    rig = Rig()
    await rig.ticks(40)
    proposed = rig.slos
    rig.objectives.configure(settings())
    assert await rig.ticks(40) == []
    assert rig.slos == proposed


async def test_a_configured_objective_takes_the_place_of_all_that_are_proposed() -> None:
    rig = Rig()
    await rig.ticks(40)
    rig.objectives.configure(settings(slo={"time_to_first_token": {"bound_s": 1.0}}))
    assert await rig.ticks(40) == []
    assert rig.slos == (Slo(Latency.TTFT, 95, 1.0),)
    rig.objectives.configure(settings())
    await rig.ticks(1)
    assert ITL in rig.slos


async def test_proposing_can_be_switched_off() -> None:
    rig = Rig(slo={"propose": {"enabled": False}})
    assert await rig.ticks(200) == []
    assert rig.slos == ()


async def test_a_provisional_proposal_gives_way_to_a_quiet_one() -> None:
    rig = Rig()
    (first,) = await rig.ticks(80, demand=9.0)
    assert [slo.latency for slo in rig.slos] == [Latency.ITL]
    (second,) = await rig.ticks(40)
    assert {slo.latency for slo in rig.slos} == {Latency.TTFT, Latency.ITL, Latency.E2E}
    assert "not quiet" in first.sentence
    assert "of quiet load" in second.sentence
    assert await rig.ticks(100) == []


async def test_nothing_is_proposed_before_it_is_known_what_was() -> None:
    rig = Rig()
    rig.memory.broken = True
    assert await rig.ticks(100) == []
    assert rig.slos == ()
    rig.memory.broken = False
    assert len(await rig.ticks(40)) == 1


@pytest.mark.parametrize("damage", [{"slos": [{"latency": "speed"}]}, {"slos": None}, {"sentence": None, "slos": [{}]}])
async def test_what_cannot_be_understood_of_a_kept_proposal_is_proposed_anew(damage: dict[str, Any]) -> None:
    rig = Rig()
    await rig.ticks(40)
    (name,) = rig.memory.values
    rig.memory.values[name] = json.dumps(json.loads(rig.memory.values[name]) | damage)
    after = Rig(rig.memory)
    await after.ticks(1)
    assert after.slos == ()
    await after.ticks(40)
    assert after.slos == rig.slos


async def test_an_engine_that_does_not_answer_for_a_while_loses_nothing() -> None:
    rig = Rig()
    await rig.ticks(40)
    proposed = rig.slos
    await rig.ticks(5, runtime=None)
    assert rig.slos == proposed


SCHEDULE = {
    "schedule": [
        {"name": "day", "cron": "0 8 * * *", "inter_token_latency": {"bound_s": 0.05}},
        {"name": "night", "cron": "0 20 * * *", "inter_token_latency": {"bound_s": 0.5}},
    ]
}


async def test_the_schedule_changes_the_objectives_and_says_so_once_at_each_change() -> None:
    rig = Rig(slo=SCHEDULE)
    assert await rig.ticks(2) == []  # what holds at the start is no news
    assert rig.slos == (Slo(Latency.ITL, 95, 0.05),)
    rig.at = datetime(2026, 3, 4, 19, 59, 58, tzinfo=UTC)
    (noted,) = await rig.ticks(10)
    assert rig.slos == (Slo(Latency.ITL, 95, 0.5),)
    assert noted.at == datetime(2026, 3, 4, 20, tzinfo=UTC)
    assert noted.reason is Reason.SLO_SCHEDULED
    assert noted.sentence == (
        "From now on the objectives of the schedule's entry night hold: inter_token_latency P95 within 0.5 s"
    )
    rig.at = datetime(2026, 3, 5, 8, tzinfo=UTC)
    assert len(await rig.ticks(5)) == 1


async def test_a_reload_of_the_schedule_is_no_event_of_the_schedule() -> None:
    rig = Rig(slo=SCHEDULE)
    await rig.ticks(2)
    rig.objectives.configure(settings(slo={"inter_token_latency": {"bound_s": 0.1}}))
    assert await rig.ticks(2) == []
    assert rig.slos == (Slo(Latency.ITL, 95, 0.1),)


async def test_a_maintenance_window_opens_and_closes_and_both_are_noted() -> None:
    window = {"name": "driver", "begin": "2026-03-04T12:00:05", "end": "2026-03-04T12:00:15"}
    rig = Rig(slo=SCHEDULE, maintenance=[window])
    noted = await rig.ticks(30)
    assert [(d.reason, (d.at - BEGIN).seconds) for d in noted] == [
        (Reason.MAINTENANCE_BEGAN, 5),
        (Reason.MAINTENANCE_ENDED, 15),
    ]
    assert "driver: nothing is changed until 2026-03-04T12:00+00:00" in noted[0].sentence
    assert [second for second, turned in enumerate(rig.turns) if turned] == [5, 15]


async def test_a_window_that_a_reload_takes_away_closes() -> None:
    window = {"begin": "2026-03-04T11:00", "end": "2026-03-04T13:00"}
    rig = Rig(slo=SCHEDULE, maintenance=[window])
    await rig.ticks(2)
    assert rig.objectives.window is not None
    rig.objectives.configure(settings(slo=SCHEDULE))
    (noted,) = await rig.ticks(1)
    assert noted.reason is Reason.MAINTENANCE_ENDED


async def test_an_objective_on_no_bucket_bound_is_warned_of_once_with_the_flag(
    caplog: pytest.LogCaptureFixture,
) -> None:
    odd = {"inter_token_latency": {"bound_s": 0.055}, "time_to_first_token": {"bound_s": 0.5}}
    rig = Rig(slo=odd)
    await rig.ticks(5)
    rig.objectives.configure(settings(slo=odd))
    await rig.ticks(5)
    (warned,) = [r.message for r in caplog.records if r.levelno == logging.WARNING]
    assert "inter_token_latency 0.055 s (between 0.05 and 0.1 s)" in warned
    flag = json.loads(warned.split("--custom-histogram-buckets '")[1].split("'")[0])
    assert flag == {"inter_token_latency": [0.01, 0.025, 0.05, 0.055, 0.1, 0.25, 0.5, 1.0, 2.5]}


async def test_the_flag_holds_the_bounds_of_every_entry_of_the_schedule(caplog: pytest.LogCaptureFixture) -> None:
    entries = [
        {**entry, "inter_token_latency": {"bound_s": 0.055 * (n + 1)}} for n, entry in enumerate(SCHEDULE["schedule"])
    ]
    await Rig(slo={"schedule": entries}).ticks(2)
    (warned,) = [r.message for r in caplog.records if r.levelno == logging.WARNING]
    assert '"inter_token_latency": [0.01, 0.025, 0.05, 0.055, 0.1, 0.11, 0.25' in warned


async def test_an_objective_on_a_bound_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    await Rig(slo={"inter_token_latency": {"bound_s": 0.05}}).ticks(5)
    await Rig().ticks(60)  # a proposed one always lies on one
    assert [r for r in caplog.records if r.levelno == logging.WARNING] == []


def test_an_older_vllm_is_told_which_version_takes_other_bounds() -> None:
    slo = Slo(Latency.E2E, 95, 99.0)
    said = buckets.warning((slo,), (slo,), SEEN, "0.31.2")
    assert "e2e_request_latency 99 s (between 2.5 and inf s)" in said
    assert "vLLM 0.31.2 cannot have other buckets, 0.32 takes" in said
    assert '{"request_latency": [' in said


@pytest.mark.parametrize(
    ("version", "takes"),
    [("0.31.9", False), ("0.32.0+cpu", True), ("0.33.0rc1", True), ("0.1.dev9+g1", True), ("?", True)],
)
def test_the_flag_is_known_from_0_32_on(version: str, takes: bool) -> None:
    assert buckets.takes_flag(version) is takes


async def test_events_are_of_the_mode_and_boot_of_their_tick() -> None:
    rig = Rig(slo=SCHEDULE, maintenance=[{"begin": "2026-03-04T12:00", "end": "2026-03-04T13:00"}])
    (noted,) = await rig.ticks(1, runtime=None)
    assert (noted.mode, noted.boot_id, noted.policy) == (Mode.AUTO, None, "objectives")
