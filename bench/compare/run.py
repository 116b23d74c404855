"""One contender through one scenario at one seed: on the virtual clock, or at work on this machine's CPU.

Belongs here: that. Never: a score.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.compare.contenders import Contender
from bench.compare.limiters import LIMITERS, Limited
from bench.compare.scenario import DRAIN_S, Scenario
from bench.emulated_gpu.clock import Clock, VirtualClock, WorkClock
from bench.emulated_gpu.inprocess import EngineSettings
from bench.emulated_gpu.presets import Preset
from bench.emulated_gpu.settings import EmulatedGpu
from bench.virtual import Simulation, Timeline
from bench.virtual.pilot import Steering
from bench.virtual.plugin import Plugin
from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS
from policies.registry import PoliciesSettings

TICK_S = 1.0
ON_CPU = {"kv_cache_memory_bytes": 1 << 30}
"""By itself vLLM wants nearly all of a machine's memory. The number of blocks is set apart."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is run. Plain values: it goes to another process."""

    scenario: Scenario
    gpu: Preset
    contender: Contender
    seed: int
    on_cpu: bool = False
    """The model runs, on one thread of this machine's CPU; `gpu` then only says how large the cache is."""


def run(job: Job) -> Timeline:
    """The whole scenario and what it takes to answer the last requests."""
    clock = WorkClock() if job.on_cpu else VirtualClock()
    simulation = _simulation(job, clock)
    try:
        if isinstance(clock, WorkClock):
            clock.start()
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
            simulation.device.speed = phase.speed

        return change

    def switch(cap: int, budget: int) -> Callable[[], None]:
        return lambda: simulation.start_at(_knobs(cap, budget))

    phases = [(begin_s, enter(place)) for place, (begin_s, _) in enumerate(job.scenario.begins())]
    switches = [(at_s, switch(cap, budget)) for at_s, cap, budget in job.contender.switches]
    return list(heapq.merge(phases, switches, key=lambda one: one[0]))


def _simulation(job: Job, clock: Clock) -> Simulation:
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
            block_size=gpu.block_tokens,
            async_scheduling=not job.on_cpu,
            gpu=EmulatedGpu(step=gpu.step),
            extra=ON_CPU if job.on_cpu else {},
        ),
        scenario.asks(job.seed),
        settings,
        slos,
        tick_s=TICK_S,
        gpu_name=gpu.nvml_name,
        power=gpu.power,
        later_slos=scenario.all_slos(),
        steered_by=limited if contender.limiter is not None else None,
        clock=clock,
        executor_class=_cpu() if job.on_cpu else None,
    )


def _cpu() -> type[Any]:
    os.environ |= {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    import torch
    from vllm.v1.executor.uniproc_executor import UniProcExecutor

    torch.set_num_threads(1)  # the clock counts the work of all threads
    executor: type[Any] = UniProcExecutor
    return executor


def _knobs(cap: int, budget: int) -> dict[str, float]:
    return {MAX_NUM_SEQS: float(cap), MAX_NUM_BATCHED_TOKENS: float(budget)}
