"""What holds for any history of incidents, silences, restarts and calls; and what ten thousand incidents cost."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.dispatch import dispatch, waiting
from alerts.groups import State, identity
from alerts.matching import in_force, matches, parse
from alerts.saved import pack, unpack
from alerts.settings import AlertsSettings
from domain.alert import Severity
from domain.incident import Incident, IncidentState, Notification
from domain.silence import Silence
from tests.told import NOON, incident

RECEIVERS: Mapping[str, Any] = {
    "ops": {"kind": "webhook", "url": "http://127.0.0.1/hook"},
    "pager": {
        "kind": "webhook",
        "url": "http://127.0.0.1/page",
        "matchers": "severity=critical",
        "send_resolved": False,
    },
    "am": {"kind": "alertmanager", "url": "http://127.0.0.1:9093"},
}
SEVERITY = {
    "engine_down": Severity.CRITICAL,
    "latency_slo": Severity.WARNING,
    "qps_swing": Severity.INFO,
    "emergency": Severity.CRITICAL,
}
RULES = sorted(SEVERITY)
REPEAT_S = 600


@dataclass
class Rig:
    """A history, and two daemons that live through it: one without a break, one that starts anew whenever told to."""

    settings: AlertsSettings
    now: datetime = NOON
    open: dict[str, Incident] = field(default_factory=dict)
    every: dict[str, Incident] = field(default_factory=dict)
    silences: list[Silence] = field(default_factory=list)
    state: State = field(default_factory=State)
    restarted: State = field(default_factory=State)
    told: list[Notification] = field(default_factory=list)
    hidden: list[tuple[Notification, tuple[Silence, ...]]] = field(default_factory=list)

    def change(self, rule: str, core: int) -> list[Incident]:
        """It begins, or it ends if it fires."""
        key = f"{rule}{core}"
        self.now += timedelta(milliseconds=1)
        if key in self.open:
            ended = replace(self.open.pop(key), state=IncidentState.RESOLVED, ends_at=self.now, updated_at=self.now)
            return [ended]
        labels = {"core": str(core), "subject": "memory" if rule == "emergency" else "load"}
        self.open[key] = begun = incident(rule, SEVERITY[rule], starts_at=self.now, labels=labels)
        self.every[identity(begun)] = begun
        return [begun]

    def tick(self, seconds: float = 0.0, changed: list[Incident] | None = None, restart: bool = False) -> None:
        """Both daemons at the same moment have to say the same."""
        self.now += timedelta(seconds=seconds)
        if restart:
            self.restarted = unpack(
                json.loads(json.dumps(pack(self.restarted))), self.open_before(changed), self.settings
            )
        told = dispatch(self.state, changed or (), self.silences, self.now, self.settings)
        same = dispatch(self.restarted, changed or (), self.silences, self.now, self.settings)
        assert sorted(same, key=lambda one: one.uid) == sorted(told, key=lambda one: one.uid)
        self.told.extend(told)
        self.hidden.extend((one, in_force(self.silences, self.now)) for one in told)

    def open_before(self, changed: list[Incident] | None) -> list[Incident]:
        """What fired when the state was kept: without what begins now, with what ends now."""
        ids = {identity(one) for one in changed or ()}
        ending = [self.every[identity(one)] for one in changed or () if one.state is IncidentState.RESOLVED]
        return [one for one in self.open.values() if identity(one) not in ids] + ending

    def heard(self, receiver: str) -> list[Notification]:
        return [one for one in self.told if one.receiver == receiver]


changes = st.tuples(st.just("change"), st.sampled_from(RULES), st.integers(0, 2))
waits = st.tuples(st.just("wait"), st.sampled_from([1, 9, 30, 61, 300, REPEAT_S]), st.booleans())
silencing = st.tuples(st.just("silence"), st.sampled_from(RULES), st.sampled_from([5, 100, 1000]))
histories = st.lists(changes | waits | silencing, max_size=40)
groupings = st.sampled_from([["alertname"], ["instance"], ["..."], []])


def lived(history: list[tuple[Any, ...]], group_by: list[str], max_alerts: int) -> Rig:
    given_settings = {
        "receivers": RECEIVERS,
        "group_by": group_by,
        "max_alerts": max_alerts,
        "repeat_interval_s": REPEAT_S,
    }
    rig = Rig(AlertsSettings.model_validate(given_settings))
    for kind, first, second in history:
        if kind == "change":
            rig.tick(0, rig.change(first, second))
        elif kind == "silence":
            rig.silences.append(Silence(parse(f"alertname={first}"), rig.now, rig.now + timedelta(seconds=second)))
        else:
            rig.tick(first, restart=second)
    return rig


def at_rest(rig: Rig) -> None:
    """Everything is over, and so is every silence; then time passes."""
    rig.tick(0, [ended for one in list(rig.open.values()) for ended in rig.change(one.rule, int(one.labels["core"]))])
    for _ in range(60):
        rig.tick(61, restart=True)


@given(histories, groupings, st.integers(2, 6))
def test_an_incident_is_told_as_firing_first_and_as_over_once_and_is_the_same_in_both(
    history: list[tuple[Any, ...]], group_by: list[str], max_alerts: int
) -> None:
    rig = lived(history, group_by, max_alerts)
    at_rest(rig)
    for receiver in RECEIVERS:
        tellings: dict[str, list[Incident]] = defaultdict(list)
        for notification in rig.heard(receiver):
            for one in notification.incidents:
                tellings[identity(one)].append(one)
        for name, told in tellings.items():
            began = rig.every[name]
            states = [one.state for one in told]
            assert states[0] is IncidentState.FIRING
            assert states.count(IncidentState.RESOLVED) == (0 if receiver == "pager" else 1)
            assert IncidentState.RESOLVED not in states[:-1]
            assert all((one.labels, one.starts_at) == (began.labels, began.starts_at) for one in told)
            assert receiver != "am" or len(told) == 2
    assert rig.state == rig.restarted == State()


@given(histories, groupings, st.integers(2, 6))
def test_a_group_is_told_no_more_often_than_its_intervals_allow(
    history: list[tuple[Any, ...]], group_by: list[str], max_alerts: int
) -> None:
    rig = lived(history, group_by, max_alerts)
    at_rest(rig)
    for receiver in ("ops", "pager"):
        last: dict[str, Notification] = {}
        for now in rig.heard(receiver):
            before = last.get(now.group_key)
            last[now.group_key] = now
            if before is None or before.state is IncidentState.RESOLVED or receiver == "pager":
                continue  # the group may have been over in between
            passed_s = (now.created_at - before.created_at).total_seconds()
            assert passed_s >= rig.settings.group_interval_s
            if now.incidents == before.incidents and now.truncated == before.truncated:
                assert passed_s >= REPEAT_S
    assert len({one.uid for one in rig.told}) == len(rig.told)


@given(histories, groupings)
def test_nothing_that_is_silenced_is_told_and_what_fires_unhidden_is_told(
    history: list[tuple[Any, ...]], group_by: list[str]
) -> None:
    rig = lived(history, group_by, 64)
    for notification, silences in rig.hidden:
        assert not any(matches(one.matchers, each.labels) for one in silences for each in notification.incidents)
    rig.silences.clear()
    for _ in range(3):
        rig.tick(61)
    down = any(one.rule == "engine_down" for one in rig.open.values())
    told = {identity(one) for notification in rig.heard("ops") for one in notification.incidents}
    hidden = {"latency_slo", "qps_swing"} if down else set[str]()
    assert {identity(one) for one in rig.open.values() if one.rule not in hidden} <= told


def calls(work: Callable[[], object]) -> int:
    """How many functions were called, those of C included: a cost that does not hang on the machine."""
    count = 0

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def burst(size: int, labels: Callable[[int], dict[str, str]], rule: Callable[[int], str]) -> int:
    """So many begin, taken in by slices, and then all end; the calls that it took."""
    settings = AlertsSettings.model_validate({"receivers": RECEIVERS})
    begun = [incident(rule(number), Severity.WARNING, labels=labels(number)) for number in range(size)]
    over = [replace(one, state=IncidentState.RESOLVED, ends_at=NOON + timedelta(60), updated_at=NOON) for one in begun]
    told = list[Notification]()

    def work() -> None:
        state, now = State(), NOON
        for incidents in (begun, over):
            for start in range(0, size, 500):
                told.extend(dispatch(state, incidents[start : start + 500], (), now, settings))
            for wait_s in (0, 10, 60):
                now += timedelta(seconds=wait_s)
                while waiting(state, now, settings):
                    told.extend(dispatch(state, (), (), now, settings))
        assert state == State()

    cost = calls(work)
    assert max(len(one.incidents) for one in told) <= settings.max_alerts
    named = [identity(one) for note in told if note.receiver == "am" for one in note.incidents]
    assert len(named) == 2 * size
    return cost


@pytest.mark.parametrize(
    ("size", "labels", "rule"),
    [
        (10_000, lambda number: {"core": str(number)}, lambda _: "latency_slo"),
        (3_000, lambda _: {}, lambda number: f"rule_{number}"),
    ],
    ids=["one group", "a group each"],
)
def test_ten_times_the_incidents_cost_about_ten_times_as_much_and_leave_nothing_behind(
    size: int, labels: Callable[[int], dict[str, str]], rule: Callable[[int], str]
) -> None:
    assert burst(size, labels, rule) < 15 * burst(size // 10, labels, rule)
