"""Alerts that end by themselves while they are true, and values that jump to and fro (A2).

The rules, incidents, groups and senders as they are, over real HTTP, in virtual time. tests/e2e/test_alertmanager.py
has a real Alertmanager at the other end.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from alerts.delivery import Deliveries
from alerts.dispatch import dispatch, resend
from alerts.groups import State
from alerts.incidents import Opened, follow
from alerts.settings import AlertsSettings, Kind, ReceiverSettings
from domain.alert import Rule
from domain.incident import Delivery, Notification
from policies.alert_thresholds import AlertsState, evaluate
from tests.alert_rules import BY_NAME
from tests.told import NOON, OtherEnd
from tests.views import view
from tests.virtual_time import VirtualClock

KV = BY_NAME["kv_cache_full"]
TICK_S = 2.0
TICK = timedelta(seconds=TICK_S)
FULL, CALM = 0.97, 0.5
RESEND = timedelta(seconds=ReceiverSettings(kind=Kind.ALERTMANAGER, url="http://am").resend_s)
LASTS = 4 * RESEND
"""How long after it was told an alert is over by itself."""


class Nowhere:
    """An outbox that keeps nothing: nothing crashes here."""

    def note(self, deliveries: Sequence[Delivery]) -> None:
        """It stands so."""

    async def mark(self, delivery: Delivery) -> None:
        """It stands so."""


@dataclass(frozen=True)
class Heard:
    """One alert in one request, and when it came."""

    at: datetime
    alert: dict[str, Any]

    @property
    def identity(self) -> tuple[str, str]:
        return str(self.alert["labels"]), self.alert["startsAt"]

    @property
    def ends(self) -> datetime:
        return datetime.fromisoformat(self.alert["endsAt"])

    @property
    def over(self) -> bool:
        """Whether it says that the alert is over: Alertmanager goes by the time, a webhook by the word."""
        return self.ends <= self.at if "status" not in self.alert else self.alert["status"] == "resolved"


class Telling:
    """One rule on the KV cache, and one receiver."""

    def __init__(self, rule: Rule, kind: str, end: OtherEnd) -> None:
        self.clock = VirtualClock()
        self.heard: list[Heard] = []
        self._requests = 0
        self._rule, self._end = rule, end
        receivers = {"ops": {"kind": kind, "url": end.url}}
        self._settings = AlertsSettings.model_validate({"receivers": receivers})
        self._rules, self._groups = AlertsState(), State()
        self._open: Opened = {}
        self.deliveries = Deliveries(self._settings, Nowhere(), self.clock, self._again)

    def _again(self, receiver: str) -> Sequence[Notification]:
        return resend(self._groups, receiver, self.clock.now(), self._settings)

    async def see(self, values: Iterable[float], each_s: float) -> list[Heard]:
        """The KV cache is used so much, each for so long; what is heard meanwhile."""
        before = len(self.heard)
        for value in values:
            for _ in range(round(each_s / TICK_S)):
                seen = view(self.clock.s, kv_cache_usage_ratio=value)
                self._rules, transitions = evaluate(self._rules, seen, (self._rule,))
                changed = follow(self._open, transitions, "gpu1:8000", self.clock.now())
                due = dispatch(self._groups, changed, (), self.clock.now(), self._settings)
                self.deliveries.put(due)
                await self.clock.settle()
                self._listen()
                await self.clock.pass_s(TICK_S)
                self._listen()
        return self.heard[before:]

    def _listen(self) -> None:
        for request in self._end.got[self._requests :]:
            told = json.loads(request)
            alerts = told if isinstance(told, list) else told["alerts"]
            self.heard += [Heard(self.clock.now(), alert) for alert in alerts]
        self._requests = len(self._end.got)


@asynccontextmanager
async def telling(rule: Rule, kind: str) -> AsyncIterator[Telling]:
    end = OtherEnd()
    await end.start()
    told = Telling(rule, kind, end)
    told.deliveries.start()
    try:
        yield told
    finally:
        await told.deliveries.stop(1.0)
        await end.server.close()


async def test_what_is_true_for_twelve_minutes_is_told_each_minute_and_never_ends_by_itself() -> None:
    async with telling(KV, "alertmanager") as told:
        heard = await told.see([FULL], KV.for_s + 12 * 60)
        moments = [NOON + timedelta(seconds=KV.for_s), *(one.at for one in heard), told.clock.now()]
        assert 12 <= len(heard) <= 14
        assert all(later - earlier <= RESEND + TICK for earlier, later in pairwise(moments))
        assert all(one.at + LASTS - TICK <= one.ends for one in heard)

        *again, last = await told.see([CALM], 10 * 60)
        assert last.over
        assert not any(one.over for one in (*heard, *again))
        assert {one.identity for one in told.heard} == {last.identity}


@pytest.mark.parametrize("kind", ["webhook", "alertmanager"])
@pytest.mark.parametrize(
    ("rule", "fires"),
    [
        (KV, 0),
        (replace(KV, for_s=0.0), 1),
        (replace(KV, for_s=0.0, clear=0.95), 1),
        (replace(KV, for_s=0.0, keep_firing_for_s=0.0), 1),
    ],
    ids=["as shipped", "without a wait", "without a clear level", "without a hold"],
)
async def test_a_value_that_jumps_to_and_fro_fires_once_at_most_and_is_over_once(
    rule: Rule, fires: int, kind: str
) -> None:
    """KV alternating 0.96/0.94 every 10 s at the threshold 0.95, for twenty minutes."""
    async with telling(rule, kind) as told:
        await told.see([0.96, 0.94] * 60, 10)
        await told.see([CALM], 5 * 60)
        assert len({one.identity for one in told.heard}) == fires
        assert [one.over for one in told.heard if one.over] == [True] * fires
        assert kind == "alertmanager" or len(told.heard) == 2 * fires


async def test_a_full_cache_that_jumps_to_and_fro_later_on_stays_one_alert() -> None:
    async with telling(KV, "webhook") as told:
        assert [one.over for one in await told.see([FULL], 2 * KV.for_s)] == [False]
        assert await told.see([0.96, 0.94] * 60, 10) == []
        assert [one.over for one in await told.see([CALM], 5 * 60)] == [True]
