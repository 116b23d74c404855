"""One contender through one scenario at one seed, on the virtual clock. Belongs here: that. Never: a score."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from bench.compare.contenders import Contender
from bench.compare.limiters import LIMITERS, Limited
from bench.compare.scenario import DRAIN_S, Scenario
from bench.emulated_gpu.inprocess import EngineSettings
from bench.emulated_gpu.presets import BLOCK_TOKENS, Preset
from bench.emulated_gpu.settings import EmulatedGpu
from bench.virtual import Simulation, Timeline
from bench.virtual.pilot import Steering
from bench.virtual.plugin import Plugin
from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS
from policies.registry import PoliciesSettings

TICK_S = 1.0


@dataclass(frozen=True, slots=True)
class Job:
    """What is run. Plain values: it goes to another process."""

    scenario: Scenario
    gpu: Preset
    contender: Contender
    seed: int


def run(job: Job) -> Timeline:
    """The whole scenario and what it takes to answer the last requests."""
    simulation = _simulation(job)
    try:
        simulation.start_at(_knobs(job.contender.cap, job.contender.budget))
        for at_s, change in _changes(job, simulation):
            simulation.run(max(0.0, at_s - simulation.clock.now_s()))
            change()
        return simulation.run(job.scenario.seconds + DRAIN_S - simulation.clock.now_s())
    finally:
        simulation.close()


def _changes(job: Job, simulation: Simulation) -> list[tuple[float, Callable[[], None]]]:
    """What happens from outside, in order: other objectives, another speed, the oracle's hand."""

    def enter(place: int) -> Callable[[], None]:
        def change() -> None:
            phase = job.scenario.phases[place]
            simulation.aim_at(phase.objectives.slos())
            simulation.engine.executor.speed = phase.speed

        return change

    def switch(cap: int, budget: int) -> Callable[[], None]:
        return lambda: simulation.start_at(_knobs(cap, budget))

    phases = [(begin_s, enter(place)) for place, (begin_s, _) in enumerate(job.scenario.begins())]
    switches = [(at_s, switch(cap, budget)) for at_s, cap, budget in job.contender.switches]
    return list(heapq.merge(phases, switches, key=lambda one: one[0]))


def _simulation(job: Job) -> Simulation:
    scenario, gpu, contender = job.scenario, job.gpu, job.contender
    slos = scenario.phases[0].objectives.slos()
    settings = None if contender.policies is None else PoliciesSettings.model_validate(contender.policies)

    def limited(plugin: Plugin) -> Steering:
        return Limited(plugin, LIMITERS[contender.limiter or ""](), slos, TICK_S)

    return Simulation(
        EngineSettings(
            max_num_seqs=scenario.max_num_seqs,
            max_num_batched_tokens=scenario.max_num_batched_tokens,
            max_model_len=scenario.max_model_len,
            num_blocks=gpu.num_blocks,
            block_size=BLOCK_TOKENS,
            async_scheduling=True,
            gpu=EmulatedGpu(step=gpu.step),
        ),
        scenario.asks(job.seed),
        settings,
        slos,
        tick_s=TICK_S,
        gpu_name=gpu.nvml_name,
        power=gpu.power,
        later_slos=scenario.all_slos(),
        steered_by=limited if contender.limiter is not None else None,
    )


def _knobs(cap: int, budget: int) -> dict[str, float]:
    return {MAX_NUM_SEQS: float(cap), MAX_NUM_BATCHED_TOKENS: float(budget)}
