"""The trap: load just under capacity and a queue whose wait alone breaks the objective.

A smaller batch makes a queue longer, so whoever shrinks by latency alone goes on to shrink, down to the floor. Here on
vLLM's real scheduler with the plugin's real operations; device and clock are emulated, so each run is the same.
"""

from __future__ import annotations

from functools import cache

import pytest

pytest.importorskip("vllm")

from bench.emulated_gpu.inprocess import EngineSettings
from bench.emulated_gpu.settings import EmulatedGpu
from bench.emulated_gpu.step_model import StepModel
from bench.virtual import Lengths, Poisson, Simulation, Timeline, at_once, together
from domain.knobs import MAX_NUM_SEQS
from domain.slo import Latency, Slo
from policies.registry import PoliciesSettings

CAP = 32
LOAD = 0.95
"""Of the capacity with the whole batch."""
BACKLOG = 150
"""Requests that come at once, and whose queue a load just under capacity takes minutes to work off."""
SECONDS = 150.0
LENGTHS = Lengths(prompt=(64, 192), answer=(40, 80))
ENGINE = EngineSettings(
    max_num_seqs=CAP,
    max_num_batched_tokens=1024,
    async_scheduling=True,
    gpu=EmulatedGpu(step=StepModel(base_ms=40.0, per_token_us=150.0, per_context_token_ns=60.0)),
)
SLOS = (Slo(Latency.E2E, 99.0, 8.0), Slo(Latency.ITL, 95.0, 0.25))
ALGORITHMS = ("seed", "rules", "model")


@cache
def _capacity() -> float:
    """Requests/s with the whole batch and always somebody waiting."""
    simulation = Simulation(ENGINE, at_once(1000, 0.0, LENGTHS), None)
    try:
        return simulation.run(40.0).requests_per_s(10.0)
    finally:
        simulation.close()


@cache
def _run(algorithm: str) -> Timeline:
    policies = PoliciesSettings.model_validate({"batch_resize": {"algorithm": algorithm}})
    workload = together(at_once(BACKLOG, 5.0, LENGTHS), Poisson(LOAD * _capacity(), LENGTHS).asks())
    simulation = Simulation(ENGINE, workload, policies, SLOS)
    try:
        return simulation.run(SECONDS)
    finally:
        simulation.close()


def _show(algorithm: str, timeline: Timeline) -> None:
    rate, asked = timeline.requests_per_s(SECONDS / 2), LOAD * _capacity()
    print(f"\n{algorithm}: {rate:.2f} requests/s in the second half, {asked:.2f} asked for, {_capacity():.2f} possible")
    for tick in timeline.ticks[:: len(timeline.ticks) // 18]:
        cap = tick.knobs[MAX_NUM_SEQS]
        said = next((d.sentence for d in tick.decisions if d.knob == MAX_NUM_SEQS), "")
        print(f"  {tick.at_s:6.1f} s  cap {cap:3.0f}  {tick.running:3} run  {tick.waiting:4} wait  {said[:110]}")


def _caps(timeline: Timeline) -> list[float]:
    return [value for _, value in timeline.knob(MAX_NUM_SEQS)]


def test_the_rule_of_the_seeds_to_the_letter_shrinks_to_the_floor_and_loses_the_engine() -> None:
    timeline = _run("seed")
    _show("seed", timeline)
    assert min(_caps(timeline)) == 1
    assert _caps(timeline)[-1] == 1
    assert timeline.requests_per_s(SECONDS / 2) < 0.5 * LOAD * _capacity()
    assert timeline.ticks[-1].waiting > 2 * BACKLOG


@pytest.mark.parametrize("algorithm", ALGORITHMS[1:])
def test_a_queue_that_breaks_the_objective_is_no_cause_to_shrink_and_is_worked_off(algorithm: str) -> None:
    timeline = _run(algorithm)
    _show(algorithm, timeline)
    caps, queue = _caps(timeline), [tick.waiting for tick in timeline.ticks]
    assert min(caps) > PoliciesSettings().batch_resize.floor
    assert caps[-1] == CAP
    assert timeline.requests_per_s(SECONDS / 2) > LOAD * _capacity()
    assert queue[-1] < max(queue)
    model = timeline.ticks[-1].view.capacity
    assert model is not None
    assert model.trusted, model.why


def test_the_same_run_twice_is_the_same_to_the_last_bit() -> None:
    def run() -> Timeline:
        simulation = Simulation(ENGINE, Poisson(3.0, LENGTHS, seed=7).asks(), PoliciesSettings(), SLOS)
        try:
            return simulation.run(20.0)
        finally:
            simulation.close()

    assert repr(run()) == repr(run())
