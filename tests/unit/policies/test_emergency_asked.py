"""emergency_purge asked from outside: the same measures, the same gates."""

from __future__ import annotations

from typing import Any

import pytest

from domain.decision import Proposal, Reason
from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_QUEUED_REQS, NO_LIMIT, PURGE
from domain.snapshot import Source
from policies.emergency_purge import EmergencyPurge, EmergencyPurgeSettings, ask
from policies.emergency_purge.state import Phase
from tests.emergencies import FRESH, Plant


def asked(one: Plant, **changes: Any) -> list[Proposal]:
    """One view at which an alert from outside asks for the measures."""
    one.state = ask(one.state, "alert KvFull")
    return one.run(1, **changes)


def test_an_alert_from_outside_has_the_measures_taken_without_pressure_of_their_own() -> None:
    one = Plant(EmergencyPurge(EmergencyPurgeSettings()))
    one.run(10)
    said = asked(one)
    assert {(p.knob, p.wanted) for p in said if p.reason is Reason.EMERGENCY_ASKED} == {
        (PURGE, 0.5),
        (MAX_NUM_BATCHED_TOKENS, 4096),
        (MAX_NUM_QUEUED_REQS, 100),
    }
    assert "alert KvFull asks for it" in said[0].sentence


def test_what_was_cut_for_an_alert_from_outside_comes_back_in_stages() -> None:
    one = Plant(EmergencyPurge(EmergencyPurgeSettings()))
    one.run(10)
    asked(one)
    one.run(300)
    assert one.changes(MAX_NUM_BATCHED_TOKENS)[-1] == 8192
    assert one.changes(MAX_NUM_QUEUED_REQS)[-1] == NO_LIMIT
    assert one.state.phase is Phase.CALM


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ages_s": FRESH | {Source.METRICS: 60.0}}, Reason.HOLD_BLIND),
        ({"runtime": None}, Reason.ABSTAIN_UNKNOWN),
        ({"asleep": True}, Reason.HOLD_ASLEEP),
        ({"stalled_s": 61.0}, Reason.HOLD_NO_PROGRESS),
    ],
)
def test_an_alert_from_outside_passes_no_gate_that_pressure_would_not(changes: dict[str, Any], reason: Reason) -> None:
    one = Plant(EmergencyPurge(EmergencyPurgeSettings()))
    one.run(10)
    assert asked(one, **changes)[0].reason is reason
    assert one.run(60)[0].reason is Reason.HOLD_CALM  # and it is not heard later
    assert one.emergencies() == []


def test_alerts_from_outside_are_bounded_by_the_hour_like_emergencies() -> None:
    one = Plant(EmergencyPurge(EmergencyPurgeSettings()))
    one.run(10)
    for _ in range(5):
        asked(one)
        one.run(500)
    assert len(one.acts()) == 3
