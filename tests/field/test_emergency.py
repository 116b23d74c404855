"""Field cases in which a purge was near and wrong, or did nothing: what emergency_purge, diagnosis and the alerts say.

Readings pass through the estimator, as in the daemon, wherever the case is told in readings.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from controller.estimation import Estimator
from domain.alert import AlertState
from domain.decision import Proposal, Reason
from domain.diagnosis import Cause, Diagnosis
from domain.knobs import MAX_NUM_BATCHED_TOKENS, PREEMPT, PURGE
from domain.readings.engine import CoreStats
from domain.readings.vllm import EngineGauges, VllmReading
from domain.snapshot import Snapshot, Source
from domain.view import View
from policies.alert_thresholds import AlertsState, evaluate
from policies.diagnosis import DiagnosisState, diagnose
from policies.emergency_purge import EmergencyPurge, EmergencyPurgeSettings, acting
from tests.emergencies import CROWDED, FRESH, TIGHT, Plant, emergencies, engine, seen
from tests.snapshots import GIB, gpu, gpus, memory, snapshot, stats


class Night:
    """Estimator, emergency policy, diagnosis and alerts over one history."""

    def __init__(self, tick_s: float = 1.0) -> None:
        self.policy = EmergencyPurge(EmergencyPurgeSettings())
        self.state = self.policy.initial_state()
        self.estimator = Estimator(tick_s)
        self.diagnosed = DiagnosisState()
        self.alerts = AlertsState()
        self.proposals: list[Proposal] = []
        self.causes: list[tuple[Cause, float]] = []
        """Each diagnosis at the moment it began."""
        self.fired: list[str] = []
        self.found: dict[Cause, Diagnosis] = {}

    def tick(self, reading: Snapshot) -> View:
        """Take one snapshot in."""
        view = replace(
            self.estimator.update(reading, ()), asleep=reading.vllm.asleep if reading.vllm is not None else None
        )
        self.see(view)
        return view

    def see(self, view: View) -> None:
        """Take one view in."""
        self.state, made = self.policy.decide(self.state, view)
        self.proposals += made
        self.diagnosed, found = diagnose(self.diagnosed, view)
        now = {one.cause: one for one in found}
        self.causes += [(cause, view.now_s) for cause in now if cause not in self.found]
        self.found = now
        told = {"emergency": float(acting(self.state))}
        self.alerts, transitions = evaluate(self.alerts, view, told=told)
        self.fired += [one.rule.name for one in transitions if one.after is AlertState.FIRING]

    @property
    def reasons(self) -> set[Reason]:
        """Everything the policy gave as a reason."""
        return {one.reason for one in self.proposals}


def card(used_gib: float) -> Any:
    return gpus(gpu(memory=memory(used_gib * GIB)))


def well(second: float, kv: float = 0.2, boot_id: str = "boot-a", **changes: Any) -> Snapshot:
    """A card of 80 GiB that is 98 % full, 60 GiB of it the KV pool; 50 requests a second."""
    counted = 50.0 * second
    values: dict[str, Any] = {
        "vllm": VllmReading(
            running=20, waiting=0, deferred=0, kv_cache_usage_ratio=kv, preemptions=0, requests_finished=counted,
            requests_failed=0, generation_tokens=1000.0 * second, prompt_tokens=1000.0 * second,
        ),
        "runtime": engine(boot_id=boot_id),
        "engine": stats(CoreStats(0, boot_id, kv_pool_bytes=60 * GIB, hot_blocks=10, cold_blocks=50)),
        "gpus": card(78.4),
    }  # fmt: skip
    return snapshot(second, **(values | changes))


STUCK = ((29.0, 92.0, 92.0, 0.90), (3.0, 227.0, 227.0, 0.21), (4.0, 487.0, 468.0, 0.20))


def test_an_engine_without_progress_is_to_be_restarted_and_not_purged() -> None:
    """Field case R1: deferred plus running reach the cap, nothing ends for 60 s, the GPU is busy."""
    night = Night()
    for second in range(10):
        night.tick(well(second))
    began = None
    for second in range(10, 200):
        running, waiting, deferred, kv = STUCK[min(2, (second - 10) // 60)]
        stuck = VllmReading(
            running=running, waiting=waiting, deferred=deferred, kv_cache_usage_ratio=kv, preemptions=0,
            requests_finished=450, generation_tokens=9000 + second, prompt_tokens=9000,
        )  # fmt: skip
        night.tick(well(second, vllm=stuck, gpus=gpus(gpu(memory=memory(78.4 * GIB), utilization_ratio=1.0))))
        if began is None and Cause.NO_PROGRESS in night.found:
            began = second
    assert began is not None
    assert 70 <= began <= 85
    assert "Restart the engine" in (night.found[Cause.NO_PROGRESS].action or "")
    assert night.found[Cause.NO_PROGRESS].evidence["gpu_utilization_ratio"] == 1.0
    assert emergencies(night.proposals) == []


def test_an_engine_that_gives_no_token_is_not_purged_even_under_pressure() -> None:
    """Field case R1: nothing that is stuck is relieved by a purge."""
    one = Plant(EmergencyPurge(EmergencyPurgeSettings()))
    one.run(300, **(TIGHT | CROWDED | {"stalled_s": 61.0}))
    assert one.emergencies() == []
    assert "only a restart helps" in one.sentence(Reason.HOLD_NO_PROGRESS)


@pytest.mark.parametrize("pressure", [TIGHT, CROWDED])
def test_a_purge_that_did_nothing_counts_as_not_made_and_is_not_repeated_at_once(pressure: dict[str, Any]) -> None:
    """Field case R4: the call answers 200 (or False) with 12 requests running and the KV cache unchanged."""
    one = Plant(EmergencyPurge(EmergencyPurgeSettings()))
    one.run(1200, **(pressure | {"running": 12.0}))
    assert (
        "not relieved 30 s after measure 1" in next(p for _, p in one.made if p.reason is Reason.NOT_RELIEVED).sentence
    )
    assert "Not purged in effect" in one.sentence(Reason.NOT_RELIEVED)
    times = [at for at, _ in one.acts()]
    assert len(times) <= 2
    assert all(later - earlier >= 120 for earlier, later in pairwise(times))


def test_running_requests_are_thrown_out_only_where_that_was_configured() -> None:
    """Field case R4."""
    left = Plant(EmergencyPurge(EmergencyPurgeSettings()))
    left.run(1200, **TIGHT)
    assert left.acts(PREEMPT) == []
    configured = Plant(EmergencyPurge(EmergencyPurgeSettings(preempt_requests=4)))
    configured.run(1200, **TIGHT)
    assert [much for _, much in configured.acts(PREEMPT)] == [4]


def test_a_full_card_with_an_idle_kv_cache_is_normal_and_an_engine_that_is_down_no_emergency() -> None:
    """Field case R6: NVML 98 % for hours at KV 0.2, then connection refused for 12 min, counters restart."""
    night = Night(tick_s=10.0)
    for second in range(0, 2 * 3600, 10):
        view = night.tick(well(second))
        assert view.gpu_memory_usage_ratio == pytest.approx(0.98)
    refused = {Source.METRICS: "cannot reach vLLM: refused", Source.RUNTIME: "cannot reach vLLM: refused"}
    for second in range(7200, 7920, 10):
        night.tick(snapshot(second, gpus=card(2.0 if second > 7210 else 78.4), problems=refused))
    for second in range(7920, 8520, 10):
        night.tick(again(second))
    assert night.causes == [(Cause.ENGINE_DOWN, 7220.0)]
    assert night.found == {}
    assert night.fired == []
    assert emergencies(night.proposals) == []
    assert night.reasons == {Reason.HOLD_CALM, Reason.ABSTAIN_UNKNOWN}


def again(second: int) -> Snapshot:
    """The engine is back: another boot, counters from 0."""
    counted = well(second - 7920, boot_id="boot-b")
    return replace(counted, now_s=float(second), wall=snapshot(second).wall)


def test_a_sleeping_engine_is_neither_purged_nor_cut() -> None:
    """Field case R6: asleep, whatever its memory reads."""
    one = Plant(EmergencyPurge(EmergencyPurgeSettings()))
    one.run(120, **(TIGHT | CROWDED | {"asleep": True}))
    assert one.emergencies() == []
    assert one.reasons() == [Reason.HOLD_ASLEEP]


def test_a_driver_that_is_gone_is_no_emergency_and_the_rest_goes_on() -> None:
    """Field case N4: five good polls, then every NVML call -> 999."""
    night = Night()
    for second in range(5):
        night.tick(well(second))
    lost = {Source.GPU: "cannot read the GPUs: NVML error 999 (unknown)"}
    for second in range(5, 400):
        view = night.tick(well(second, gpus=None, problems=lost))
    assert view.requests_per_s == pytest.approx(50)
    assert emergencies(night.proposals) == []
    assert "effective GPU memory is not known: gpu is in trouble (cannot read the GPUs" in night.proposals[-1].sentence
    assert night.fired == []


def test_old_values_of_a_driver_that_hangs_start_no_emergency() -> None:
    """Field case N6: the call blocks for 600 s from poll 10 on; the last value before it was over the level."""
    night = Night()
    for second in range(10):
        night.tick(well(second, kv=1.0, gpus=card(77.0)))
    assert night.tick(well(10, kv=1.0, gpus=card(78.0))).effective_memory_ratio == pytest.approx(0.975)
    stuck = {Source.GPU: "the driver does not answer for so long"}
    for second in range(11, 611):
        night.tick(well(second, kv=1.0, gpus=None, problems=stuck))
    assert emergencies(night.proposals) == []
    assert night.policy.decide(night.policy.initial_state(), old(600.0))[1][0].reason is Reason.HOLD_CALM


def test_an_emergency_whose_driver_hangs_cuts_nothing_further() -> None:
    """Field case N6: what was asked for and withheld before is not asked for on old values."""
    one = Plant(EmergencyPurge(EmergencyPurgeSettings()), obeys=False)
    one.run(5, **TIGHT)
    before = len(one.emergencies())
    one.run(600, **(TIGHT | {"ages_s": FRESH | {Source.GPU: 30.0}}))
    assert before == 5
    assert len(one.emergencies()) == before


def old(age_s: float) -> View:
    """A view that still shows the last value, with its age."""
    return seen(610.0, **(TIGHT | {"ages_s": FRESH | {Source.GPU: age_s}}))


BLIND = {
    "empty": "http://x/metrics answers, but carries no vLLM series",
    "python only": "http://x/metrics answers, but carries no vLLM series (python_gc_* alone)",
    "500": "cannot scrape http://x/metrics: HTTP 500",
}


@pytest.mark.parametrize("problem", BLIND.values(), ids=list(BLIND))
def test_an_endpoint_without_engine_data_is_blind_never_an_emergency(problem: str) -> None:
    """Field case M2: 200 and empty, 200 with python_gc_* only, 500 while the engine is healthy."""
    night = Night()
    for second in range(10):
        night.tick(well(second, kv=0.99, gpus=card(79.9)))
    before = len(night.proposals)
    for second in range(10, 300):
        night.tick(well(second, vllm=None, gpus=card(79.9), problems={Source.METRICS: problem}))
    assert [cause for cause, _ in night.causes] == [Cause.BLIND]
    assert problem in night.found[Cause.BLIND].sentence
    assert "--disable-log-stats" in (night.found[Cause.BLIND].action or "")
    assert {one.reason for one in night.proposals[before:]} == {Reason.HOLD_BLIND}
    assert {one.wanted for one in night.proposals[before:]} == {0.0}


def test_an_emergency_that_goes_blind_loosens_nothing_and_escalates_nothing() -> None:
    """Field case M2."""
    one = Plant(EmergencyPurge(EmergencyPurgeSettings(preempt_requests=4)))
    one.run(4, **TIGHT)
    one.run(600, **(TIGHT | {"problems": {Source.METRICS: BLIND["500"]}}))
    assert one.changes(MAX_NUM_BATCHED_TOKENS) == [4096]
    assert one.acts() == [(3.0, 0.5)]
    assert one.acts(PREEMPT) == []


def test_the_fullest_engine_core_raises_the_alarm_and_is_no_emergency() -> None:
    """Field case M4: engine 0 runs 40 at KV 0.97, engine 1 runs 2 at KV 0.10."""
    night = Night()
    for second in range(90):
        vllm = VllmReading(
            running=42, waiting=0, kv_cache_usage_ratio=0.97, preemptions=0, requests_finished=50.0 * second,
            generation_tokens=1000.0 * second,
            engines=(EngineGauges("0", 40, 0, 0.97), EngineGauges("1", 2, 0, 0.10)),
        )  # fmt: skip
        view = night.tick(well(second, vllm=vllm, runtime=engine(cores=2)))
    assert (view.running, view.kv_cache_usage_ratio) == (42, 0.97)
    assert night.fired == ["kv_cache_full"]
    assert emergencies(night.proposals) == []


def test_counters_that_begin_anew_are_no_preemptions() -> None:
    """Field case M7: prompt tokens 50000, 50600, 300, 900 every 10 s; a cumulative counter is no rate."""
    night = Night()
    for i, tokens in enumerate((50000.0, 50600.0, 300.0, 900.0)):
        vllm = VllmReading(
            running=8, waiting=0, kv_cache_usage_ratio=0.99, prompt_tokens=tokens, preemptions=tokens,
            requests_finished=tokens, generation_tokens=tokens,
        )  # fmt: skip
        crowded = stats(CoreStats(0, "boot-a", kv_pool_bytes=60 * GIB, hot_blocks=99, cold_blocks=1))
        view = night.tick(well(10 * i, vllm=vllm, engine=crowded))
        assert view.preemptions_per_s is None or view.preemptions_per_s >= 0
    assert emergencies(night.proposals) == []
    assert all(one.wanted in (0.0, None) for one in night.proposals if one.knob == PURGE)
