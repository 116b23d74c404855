"""Alerts from outside between their coming in and the tick that decides."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from alerts.settings import AlertsSettings
from controller.alerting.wishes import MOST_NAME, Posted, Wishes
from controller.history.memory import Memory
from tests.told import NOON
from tests.writers import writing

LABELS = {"alertname": "KvFull"}
INCOMING = {"kv": {"matchers": 'alertname=~".+"', "action": "emergency_purge"}}


@pytest.fixture
async def wishes(tmp_path: Path) -> AsyncIterator[Wishes]:
    async with writing(tmp_path / "history.db") as writer:
        rules = AlertsSettings.model_validate({"incoming": INCOMING}).incoming
        yield Wishes(rules, Memory(writer, 1.0))


def posted(firing: bool = True, at: datetime = NOON, labels: Mapping[str, str] = LABELS) -> Posted:
    return Posted("00000000000000aa", at, labels, firing)


async def test_an_alert_that_is_over_before_a_tick_heard_it_sets_nothing_off(wishes: Wishes) -> None:
    taken = wishes.take(posted(), 0.0, "am")
    wishes.take(posted(firing=False), 0.5, "am")
    assert wishes.ask(1.0, NOON) is None
    assert taken.wish is not None
    assert taken.wish.answer.result() == "not purged: the alert was over before a tick decided anything"
    assert [one.target for one in wishes.take_actions()] == ["KvFull"]


async def test_an_alert_that_is_over_while_ticks_fail_sets_nothing_off(wishes: Wishes) -> None:
    wishes.take(posted(), 0.0, "am")
    assert wishes.ask(1.0, NOON) is not None
    wishes.take(posted(firing=False), 1.5, "am")
    assert wishes.ask(2.0, NOON) is None


async def test_an_alert_that_fires_again_before_a_tick_heard_its_end_is_heard(wishes: Wishes) -> None:
    for firing in (True, False, True):
        wishes.take(posted(firing), 0.0, "am")
    assert wishes.ask(1.0, NOON) is not None


async def test_each_alert_has_an_entry_of_its_own_in_the_audit(wishes: Wishes) -> None:
    for second in range(3):
        wishes.take(posted(at=NOON + timedelta(seconds=second)), 0.0, "am")
    wishes.ask(1.0, NOON)
    wishes.answer([], "static", NOON)
    assert len({one.request_id for one in wishes.take_actions()}) == 3


@pytest.mark.parametrize("hours", [-8, 0, 8])
async def test_one_moment_is_one_alert_in_whatever_time_zone_it_is_told(wishes: Wishes, hours: int) -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=hours)))
    wishes.take(posted(), 0.0, "am")
    wishes.take(posted(at=elsewhere), 0.0, "am")
    assert (wishes.firing, wishes.waiting) == (1, 1)


@pytest.mark.parametrize("hours", [-12, 0, 12])
async def test_a_start_before_all_time_is_a_start_too(wishes: Wishes, hours: int) -> None:
    wishes.take(posted(at=datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=hours)))), 0.0, "am")
    wishes.take(posted(at=datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-hours)))), 0.0, "am")
    assert wishes.waiting == 2


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\nERROR forged\x1b[31m\u202e", "a ERROR forged[31m"),
        ("x" * 100_000, "x" * MOST_NAME + "…"),
        ("", "00000000000000aa"),
        ("\n", "00000000000000aa"),
    ],
)
async def test_a_name_from_outside_is_one_short_line_in_every_sentence(wishes: Wishes, name: str, shown: str) -> None:
    wishes.rules = AlertsSettings.model_validate({"incoming": {"kv": {**INCOMING["kv"], "matchers": "a=b"}}}).incoming
    wishes.take(posted(labels={"alertname": name, "a": "b"}), 0.0, "am")
    assert wishes.ask(1.0, NOON) == f"alert {shown} from outside (alerts.incoming.kv)"
    wishes.answer([], "static", NOON)
    (action,) = wishes.take_actions()
    assert action.target == shown
