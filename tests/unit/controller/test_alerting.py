"""The alerts of the loop: a receiver over real HTTP, time in the test's hands."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from alerts.matching import matches, parse
from alerts.settings import AlertsSettings
from controller.loop import Loop
from controller.settings import Settings
from domain.errors import SettingsError
from domain.incident import DeliveryStatus, IncidentState
from policies.alert_thresholds import RULES
from tests.alarms import NOWHERE, aim, alarmed, alerts, heard, told_to, watched, worked_off
from tests.loop_rig import Rig
from tests.told import OtherEnd
from tests.writers import locked, until_failing, written

DOWN: dict[str, Any] = {"engine": {"url": NOWHERE}}


@pytest.fixture
async def end() -> AsyncIterator[OtherEnd]:
    made = OtherEnd()
    await made.start()
    yield made
    await made.server.close()


async def test_an_engine_that_is_down_is_told_once_and_once_that_it_is_over(rig: Rig, end: OtherEnd) -> None:
    async with alarmed(rig, alerts=told_to(end)) as loop:
        aim(loop, NOWHERE)
        await watched(rig, 120, loop)
        assert heard(end) == [("engine_down", "firing")]
        aim(loop, rig.engine.url)
        await watched(rig, 120, loop)
    fired, resolved = alerts(end)
    assert (resolved["labels"]["alertname"], resolved["status"]) == ("engine_down", "resolved")
    for name in ("labels", "fingerprint", "startsAt"):
        assert fired[name] == resolved[name]
    assert "Engine_down_s is" in fired["annotations"]["description"]


async def test_ticks_that_fail_are_told_although_they_see_nothing(rig: Rig, end: OtherEnd) -> None:
    async def broken() -> None:
        raise ValueError("unforeseen")

    async with alarmed(rig, alerts=told_to(end)) as loop:
        loop._sensing.snapshot = broken  # type: ignore[method-assign, assignment]
        await watched(rig, 30, loop)
    assert heard(end) == [("ticks_failing", "firing")]
    assert loop.observed.checks["ticks_failed"] == 20


async def test_a_restart_neither_fires_again_nor_resolves_and_the_end_is_told(rig: Rig, end: OtherEnd) -> None:
    async with alarmed(rig, alerts=told_to(end), **DOWN) as loop:
        await watched(rig, 60, loop)
    begun = alerts(end)
    async with alarmed(rig, rig.clock.s + 60, alerts=told_to(end), **DOWN) as loop:
        await watched(rig, 60, loop)
    assert alerts(end) == begun
    async with alarmed(rig, rig.clock.s + 60, alerts=told_to(end)) as loop:
        await watched(rig, 60, loop)
    assert heard(end) == [("engine_down", "firing"), ("engine_down", "resolved")]
    assert alerts(end)[1]["startsAt"] == begun[0]["startsAt"]


async def test_how_long_a_rule_was_pending_outlives_the_daemon(rig: Rig, end: OtherEnd) -> None:
    rule = {"signal": "waiting", "comparison": "above", "threshold": 5, "for_s": 60}
    mine: dict[str, Any] = {"policies": {"alert_thresholds": {"rules": {"mine": rule}}}, "mode": "observe"}
    async with alarmed(rig, alerts=told_to(end), **mine) as loop:
        await watched(rig, 45, loop)
    async with alarmed(rig, rig.clock.s + 3600, alerts=told_to(end), **mine) as loop:
        await watched(rig, 10, loop)
        assert heard(end) == []
        await watched(rig, 15, loop)
    assert heard(end) == [("mine", "firing")]


async def test_what_a_receiver_that_is_down_has_not_heard_it_hears_after_a_restart(rig: Rig, end: OtherEnd) -> None:
    end.status = 503
    async with alarmed(rig, alerts=told_to(end), **DOWN) as loop:
        while rig.clock.s < 1060:
            await loop.tick()
            await worked_off(loop, sent=False)
    assert len(set(end.got)) == 1
    end.status, end.got = 200, []
    async with alarmed(rig, rig.clock.s + 60, alerts=told_to(end), **DOWN) as loop:
        await watched(rig, 10, loop)
    assert heard(end) == [("engine_down", "firing")]
    await written(rig.writer)
    assert [one.status for one in await rig.history.alerts.deliveries()] == [DeliveryStatus.DELIVERED]


async def test_a_reload_tells_a_new_receiver_and_nobody_twice(rig: Rig, end: OtherEnd) -> None:
    other = OtherEnd()
    await other.start()
    async with alarmed(rig, alerts=told_to(end), **DOWN) as loop:
        await watched(rig, 60, loop)
        more = told_to(end)
        more["receivers"]["others"] = {"kind": "webhook", "url": other.url}
        await loop.reconfigure(Settings.model_validate({"tick_s": 1.0, "alerts": more, **DOWN}))
        await watched(rig, 60, loop)
    await other.server.close()
    assert heard(end) == heard(other) == [("engine_down", "firing")]


async def test_a_receiver_that_is_taken_out_and_put_back_hears_what_still_fires(rig: Rig, end: OtherEnd) -> None:
    """What waited for it was given up when it was taken out."""
    end.status = 503
    async with alarmed(rig, alerts=told_to(end), **DOWN) as loop:
        await unsent(rig, 30, loop)
    async with alarmed(rig, rig.clock.s, **DOWN) as loop:
        await unsent(rig, 5, loop)
        end.status, refused = 200, len(heard(end))
        await loop.reconfigure(Settings.model_validate({"tick_s": 1.0, "alerts": told_to(end), **DOWN}))
        await watched(rig, 30, loop)
    assert heard(end)[refused:] == [("engine_down", "firing")]


@pytest.mark.parametrize(
    "damage",
    [
        """UPDATE kept SET value = '{"groups_zlib": "AAAA"}' WHERE name = 'alerts'""",
        """UPDATE kept SET value = '{"groups_zlib": 1}' WHERE name = 'alerts'""",
        "UPDATE deliveries SET body = '{}'",
        "UPDATE deliveries SET body = '[]'",
    ],
)
async def test_a_row_that_is_damaged_keeps_the_daemon_from_neither_starting_nor_telling(
    rig: Rig, end: OtherEnd, damage: str
) -> None:
    end.status = 503
    async with alarmed(rig, alerts=told_to(end), **DOWN) as loop:
        await unsent(rig, 30, loop)
    await written(rig.writer)
    with closing(sqlite3.connect(rig.path)) as other:
        assert other.execute(damage).rowcount == 1
        other.commit()
    end.status, refused = 200, len(heard(end))
    async with alarmed(rig, rig.clock.s, alerts=told_to(end), **DOWN) as loop:
        await watched(rig, 90, loop)
    assert heard(end)[refused:] == [("engine_down", "firing")]


async def unsent(rig: Rig, seconds: float, loop: Loop) -> None:
    """Ticks for so long, while a receiver takes nothing."""
    until_s = rig.clock.s + seconds
    while rig.clock.s < until_s:
        await loop.tick()
        await worked_off(loop, sent=False)


async def test_a_rule_that_a_reload_switches_off_is_over(rig: Rig, end: OtherEnd) -> None:
    off: dict[str, Any] = {"alert_thresholds": {"rules": {"engine_down": {"enabled": False}}}}
    async with alarmed(rig, alerts=told_to(end), **DOWN) as loop:
        await watched(rig, 60, loop)
        settings = {"tick_s": 1.0, "alerts": told_to(end), "policies": off, **DOWN}
        await loop.reconfigure(Settings.model_validate(settings))
        await watched(rig, 90, loop)
    assert heard(end)[:2] == [("engine_down", "firing"), ("engine_down", "resolved")]


async def test_a_reload_with_a_template_that_is_wrong_changes_nothing(rig: Rig, end: OtherEnd, tmp_path: Path) -> None:
    template = tmp_path / "message.j2"
    template.write_text("{{ nobody_knows_this }}")
    chat = {"kind": "slack", "url": end.url, "template": str(template)}
    async with alarmed(rig, alerts=told_to(end), **DOWN) as loop:
        before = loop.settings
        with pytest.raises(SettingsError, match=r"message\.j2"):
            await loop.reconfigure(Settings.model_validate({"alerts": {"receivers": {"ops": chat}}}))
        assert loop.settings is before
        await watched(rig, 60, loop)
    assert heard(end) == [("engine_down", "firing")]


async def test_with_a_history_that_cannot_be_written_people_are_told_all_the_same(rig: Rig, end: OtherEnd) -> None:
    async with alarmed(rig, alerts=told_to(end), **DOWN) as loop:
        await loop.tick()
        with locked(rig.path):
            await until_failing(rig.writer)
            await watched(rig, 30, loop)
            assert heard(end) == [("engine_down", "firing")]
        await written(rig.writer)
    (stored,) = await rig.history.alerts.incidents()
    assert (stored.rule, stored.state) == ("engine_down", IncidentState.FIRING)
    assert [one.status for one in await rig.history.alerts.deliveries()] == [DeliveryStatus.DELIVERED]


async def test_what_is_open_goes_into_a_history_that_is_begun_anew(rig: Rig, end: OtherEnd) -> None:
    late = OtherEnd(status=503)
    await late.start()
    told: dict[str, Any] = told_to(end)
    told["receivers"]["late"] = {"kind": "webhook", "url": late.url}
    async with alarmed(rig, alerts=told, **DOWN) as loop:
        for _ in range(40):
            await loop.tick()
            await worked_off(loop, sent=False)
        made = await loop.alerting.silence(parse('alertname="another"'), 7200, "me", "a test")
        await written(rig.writer)
        rig.path.rename(rig.path.with_suffix(".gone"))
        async with asyncio.timeout(30):
            while rig.writer.state().anew == 0:
                await loop.tick()
                await asyncio.sleep(0.01)
        await loop.tick()
        await worked_off(loop, sent=False)
    await written(rig.writer)
    begun, late.status, late.got = alerts(end), 200, []
    async with alarmed(rig, rig.clock.s + 60, alerts=told) as loop:
        assert [replace(one, id=made.id) for one in loop.alerting.silences()] == [made]
        await watched(rig, 60, loop)
    await late.server.close()
    assert heard(end) == heard(late) == [("engine_down", "firing"), ("engine_down", "resolved")]
    assert {one["startsAt"] for one in (*alerts(end), *alerts(late))} == {begun[0]["startsAt"]}


async def test_a_history_that_does_not_answer_at_the_start_is_waited_for(rig: Rig, end: OtherEnd) -> None:
    async with alarmed(rig, alerts=told_to(end), **DOWN) as loop:
        await watched(rig, 60, loop)
    await written(rig.writer)
    with locked(rig.path):
        loop = rig.build(alerts=told_to(end), **DOWN)
        loop.memory.put("a write", rig.clock().wall, {})
        await until_failing(rig.writer)
        await loop.restore()
        for _ in range(10):
            await loop.tick()
    await written(rig.writer)
    await watched(rig, 60, loop)
    assert heard(end) == [("engine_down", "firing")]
    await loop.close()
    await loop.alerting.close()


async def test_nothing_is_told_of_what_is_silenced_until_the_silence_ends(rig: Rig, end: OtherEnd) -> None:
    async with alarmed(rig, alerts=told_to(end), **DOWN) as loop:
        made = await loop.alerting.silence(parse('alertname="engine_down"'), 120, "me", "a test")
        await watched(rig, 90, loop)
        assert heard(end) == []
        assert loop.alerting.shown()[0].muted
        assert made.id is not None
        await loop.alerting.unsilence(made.id)
        await watched(rig, 90, loop)
    assert heard(end) == [("engine_down", "firing")]


def test_no_two_shipped_alerts_silence_each_other() -> None:
    """Both would fire, and nobody would be told of either."""
    inhibit = AlertsSettings().inhibit
    of_rule = {
        rule.name: {**rule.labels, "alertname": rule.name, "severity": rule.severity.value, "instance": "gpu1"}
        for rule in RULES
    }

    def silences(source: str, target: str) -> bool:
        labels = of_rule[source], of_rule[target]
        return any(
            matches(one.source_matchers, labels[0])
            and matches(one.target_matchers, labels[1])
            and all(labels[0].get(name) == labels[1].get(name) for name in one.equal)
            for one in inhibit
        )

    assert [pair for pair in combinations(of_rule, 2) if silences(*pair) and silences(*reversed(pair))] == []
