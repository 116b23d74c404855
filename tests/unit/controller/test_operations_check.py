"""The daemon's own checks: beside the ticks, never in their way, and an alert for what turned bad."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from controller.operations.check import AGAIN_JOB, JOB, Checks
from controller.operations.refusal import Refused
from controller.preflight.result import FAIL, PASS, Check, Found, State
from controller.preflight.running import Runner
from controller.preflight.settings import CheckSettings
from controller.preflight.surroundings import Surroundings
from domain.alert import AlertState
from domain.errors import SettingsError
from tests.loop_rig import Rig, ticks
from tests.operations_rig import ada, audited, operations, restarted
from tests.writers import written


@dataclass
class Machine:
    """What its one check comes out with."""

    state: State = PASS
    seen: list[Surroundings] = field(default_factory=list)

    @property
    def runner(self) -> Runner:
        return Runner((Check("disk", "", "", frozenset(), self._look),))

    def _look(self, around: Surroundings) -> Found:
        self.seen.append(around)
        return Found(self.state, f"it is {self.state}")


@pytest.fixture
async def machine(rig: Rig) -> AsyncIterator[Machine]:
    await rig.loop.restore()
    yield Machine()
    await rig.loop.alerting.close()
    await rig.loop.close()


def checks(rig: Rig, machine: Machine) -> Checks:
    return Checks(rig.loop, rig.nvml, operations(rig).audit, machine.runner)


def firing(rig: Rig) -> AlertState:
    return next(one.state for one in rig.loop.observed.rules() if one.rule.name == "checks_worse")


async def test_a_check_that_turned_bad_raises_an_alert_and_one_that_is_good_again_ends_it(
    rig: Rig, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    made = checks(rig, machine)
    await ticks(rig, 1)
    assert "checks_worse" not in rig.loop.observed.checks, "not known before the first run"
    await made.look()
    await ticks(rig, 1)
    assert firing(rig) is AlertState.INACTIVE
    machine.state = FAIL
    await made.look()
    await ticks(rig, 1)
    assert firing(rig) is AlertState.FIRING
    assert made.last.worse == ("disk",)
    assert "check: disk was good and is not: it is fail" in caplog.text
    machine.state = PASS
    await made.look()
    await ticks(rig, 25)  # the alert is kept for half a minute, or one that flaps would be many
    assert firing(rig) is not AlertState.FIRING
    assert not made.last.worse


async def test_what_was_never_good_is_no_drift(rig: Rig, machine: Machine) -> None:
    made = checks(rig, machine)
    machine.state = FAIL
    await made.look()
    await ticks(rig, 1)
    assert firing(rig) is AlertState.INACTIVE
    assert made.last.report is not None
    assert made.last.report.state is FAIL


async def test_what_was_good_before_a_restart_is_bad_after_it(rig: Rig, machine: Machine) -> None:
    await checks(rig, machine).look()
    await written(rig.writer)
    after = await restarted(rig)
    machine.state = FAIL
    made = Checks(rig.loop, rig.nvml, after.audit, machine.runner)
    await made.look()
    assert made.last.worse == ("disk",)
    await after.close()


async def test_a_run_looks_at_what_the_last_tick_read(rig: Rig, machine: Machine) -> None:
    await ticks(rig, 3)
    await checks(rig, machine).look()
    (around,) = machine.seen
    view = rig.loop.observed.view
    assert view is not None
    assert around.engine.requests_per_s == view.requests_per_s
    assert around.engine.runtime is not None
    assert around.gpus.reading is None


async def test_a_run_that_cannot_be_is_told_and_stops_nothing(
    rig: Rig, machine: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def breaks(*_asked: object) -> None:
        raise SettingsError("cannot use engine.ca_file")

    monkeypatch.setattr("controller.preflight.gathering.gather", breaks)
    made = checks(rig, machine)
    await made.look()
    assert "check: cannot look: cannot use engine.ca_file" in caplog.text
    assert made.last.report is None
    await ticks(rig, 1)
    assert rig.loop.observed.failed_ticks == 0


async def test_a_run_that_somebody_asks_for_is_in_the_audit_and_has_a_limit(
    rig: Rig, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = checks(rig, machine)
    assert (await made.run(ada())).report is not None
    monkeypatch.setattr("controller.operations.check.LIMIT_S", 0.0)
    with pytest.raises(Refused, match="cannot check: it took longer than 0 s"):
        await made.run(ada())
    assert [(action, target) for _, action, target, _ in await audited(rig)] == [("check.run", "checks")] * 2


async def test_it_is_run_at_the_interval_of_the_settings_and_a_reload_sets_another(rig: Rig, machine: Machine) -> None:
    scheduler = AsyncIOScheduler(timezone="UTC")
    scheduler.start(paused=True)
    made = checks(rig, machine)
    for interval_s in (CheckSettings().interval_s, 600.0):
        made.schedule(scheduler, CheckSettings(interval_s=interval_s))
        (job,) = scheduler.get_jobs()
        assert (job.id, job.trigger.interval.total_seconds(), job.max_instances) == (JOB, interval_s, 1)
    scheduler.shutdown(wait=False)


async def test_while_something_is_worse_it_is_looked_again_within_minutes(rig: Rig, machine: Machine) -> None:
    scheduler = AsyncIOScheduler(timezone="UTC")
    scheduler.start(paused=True)
    made = checks(rig, machine)
    made.schedule(scheduler, CheckSettings())
    await made.look()
    assert [job.id for job in scheduler.get_jobs()] == [JOB]
    machine.state = FAIL
    for _ in range(2):
        await made.look()
        assert {job.id for job in scheduler.get_jobs()} == {JOB, AGAIN_JOB}
    scheduler.shutdown(wait=False)
