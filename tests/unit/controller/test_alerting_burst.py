"""Thousands of alerts at once: others get their turn in between, and nothing of it stays. `python -m bench alerts` has
the times.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from alerts.settings import AlertsSettings
from controller.alerting.kept import read
from controller.alerting.rules import AT_ONCE, MOST_SAID
from controller.alerting.telling import SLICE, Telling
from controller.alerting.turns import others_turn
from domain.incident import Incident, IncidentState
from store.history import History
from store.writes import SaveAlerts
from tests.alarms import NOWHERE, alarmed, watched
from tests.loop_rig import Rig
from tests.told import OtherEnd, incident
from tests.writers import writing, written

MANY = 10_000
PENDING = 100


async def test_ten_thousand_alerts_are_worked_off_in_slices_and_leave_nothing(tmp_path: Path) -> None:
    end = OtherEnd()
    await end.start()
    hook = {"kind": "webhook", "url": end.url, "max_pending": PENDING}
    settings = AlertsSettings.model_validate(
        {"group_wait_s": 0, "group_interval_s": 1, "group_by": ["instance"], "receivers": {"ops": hook}}
    )
    now = datetime(2026, 7, 30, 12, tzinfo=UTC)
    turns = 0

    async def another() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with writing(tmp_path / "history.db") as writer:
        telling = Telling(settings, writer, 5.0, lambda: now)
        for at_s, over in ((0.0, None), (10.0, 10.0)):
            now += timedelta(seconds=at_s)
            telling.put(_burst(over))
            counting, turns = asyncio.create_task(another()), 0
            await telling.work_off()
            counting.cancel()
            assert turns >= MANY // SLICE
            assert telling.deliveries.states()["ops"].pending <= PENDING
            await written(writer)
        for _ in range(MANY // settings.max_alerts + 2):  # what is over is told by name, so many at once
            now += timedelta(seconds=1)
            await telling.work_off()
        assert not telling._state.groups
        assert not telling._state.places
        assert telling.deliveries.states()["ops"].pending <= PENDING
        await written(writer)
        history = History(writer.url)
        assert await history.alerts.firing() == []
        assert len(await history.alerts.incidents(limit=2 * MANY)) == MANY
        await history.close()
    await end.server.close()


def _burst(over_after_s: float | None) -> list[Incident]:
    return [incident(f"rule_{number}", over_after_s=over_after_s) for number in range(MANY)]


async def test_who_slept_until_now_goes_on_before_the_next_slice() -> None:
    sleeper = asyncio.create_task(asyncio.sleep(1e-9))
    await asyncio.sleep(0)  # it sleeps, and its time has come when the slice after this ends
    await others_turn()
    assert sleeper.done()


async def test_a_burst_is_told_in_the_log_by_a_few_lines(
    rig: Rig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rule = {"signal": "engine_down_s", "comparison": "above", "threshold": 15, "keep_firing_for_s": 0}
    rules = {f"burst_{number}": rule for number in range(3 * AT_ONCE)}
    async with alarmed(rig, policies={"alert_thresholds": {"rules": rules}}, engine={"url": NOWHERE}) as loop:
        await watched(rig, 30, loop)
        assert len(loop.alerting.opened) > 3 * AT_ONCE
    assert 0 < sum(one.startswith("alert burst_") for one in caplog.messages) <= MOST_SAID


async def test_what_ended_after_the_state_was_written_last_is_told_after_a_crash(tmp_path: Path) -> None:
    end = OtherEnd()
    await end.start()
    settings = AlertsSettings.model_validate(
        {"group_wait_s": 0, "group_interval_s": 1, "receivers": {"ops": {"kind": "webhook", "url": end.url}}}
    )
    now = datetime(2026, 7, 30, 12, tzinfo=UTC)
    async with writing(tmp_path / "history.db") as writer:
        before = Telling(settings, writer, 5.0, lambda: now)
        before.deliveries.start()
        begun = incident()
        before.put([begun])
        await before.work_off()
        await written(writer)
        await before.deliveries.stop(5.0)
        ended = replace(begun, state=IncidentState.RESOLVED, ends_at=now, updated_at=now)
        await writer.commit(SaveAlerts(now, (ended,), (), None), 5.0)  # the row alone, then the daemon is killed

        history = History(writer.url)
        kept = await read(history, now)
        after = Telling(settings, writer, 5.0, lambda: now)
        after.restore(kept.groups, [*kept.firing, *kept.over])
        after.deliveries.start()
        now += timedelta(seconds=2)
        await after.work_off()
        await written(writer)
        await after.deliveries.stop(5.0)
        await history.close()
    await end.server.close()
    assert [json.loads(body)["status"] for body in end.got] == ["firing", "resolved"]
