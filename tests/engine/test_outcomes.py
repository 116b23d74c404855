"""Changes judged on vLLM's real scheduler; device and clock are emulated, so each run is the same."""

from __future__ import annotations

import pytest

pytest.importorskip("vllm")

from bench.emulated_gpu.inprocess import EngineSettings
from bench.emulated_gpu.settings import EmulatedGpu
from bench.emulated_gpu.step_model import StepModel
from bench.virtual import Lengths, Poisson, Simulation
from domain.knobs import MAX_NUM_SEQS
from domain.outcome import Outcome, Verdict
from domain.slo import Latency, Slo
from policies import outcomes
from policies.judgement import JudgementSettings
from policies.outcomes import OutcomesState
from policies.trial import Change

ENGINE = EngineSettings(
    max_num_seqs=64,
    max_num_batched_tokens=4096,
    async_scheduling=True,
    gpu=EmulatedGpu(step=StepModel(base_ms=18.0, per_token_us=90.0, per_context_token_ns=60.0)),
)
SLOS = (Slo(Latency.TTFT, 95, 2.5), Slo(Latency.ITL, 95, 0.1))
ASKS = Poisson(5.0, Lengths(prompt=(200, 1200), answer=(30, 60)))
CHANGED_S = 60
SETTINGS = JudgementSettings()


def _judged(cap: float) -> tuple[Outcome, list[float | None]]:
    """The verdict on a cap in place of 64, and what is wanted back."""
    simulation = Simulation(ENGINE, ASKS.asks(), None, SLOS)
    state, found = OutcomesState(), dict[str, Outcome]()
    try:
        for second in range(CHANGED_S + 60):
            view = simulation.run(1.0).ticks[-1].view
            state, reached = outcomes.observe(state, view, SETTINGS)
            found |= reached
            if second == CHANGED_S:
                simulation.plugin.set(simulation.plugin.renew(), {MAX_NUM_SEQS: cap})
                state, _ = outcomes.changed(state, view, [Change("1", MAX_NUM_SEQS, 64, cap)], SETTINGS)
            if found:
                return found["1"], [one.wanted for one in outcomes.proposals(state)]
    finally:
        simulation.close()
    pytest.fail("the change was never judged")


def test_a_cap_that_starves_the_queue_is_worse_and_wanted_back() -> None:
    outcome, wanted = _judged(4)
    print(outcome.sentence)
    assert (outcome.verdict, outcome.undo, wanted) == (Verdict.WORSE, True, [64])
    assert "time_to_first_token" in outcome.sentence


def test_a_cap_that_does_not_bind_makes_no_difference() -> None:
    outcome, wanted = _judged(56)
    print(outcome.sentence)
    assert (outcome.verdict, wanted) == (Verdict.NEUTRAL, [])
