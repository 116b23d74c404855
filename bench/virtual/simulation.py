"""The run: arrivals, the engine's steps and the governor's ticks in the order of one clock.

Belongs here: that order. Never: what is measured, what is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.emulated_gpu.clock import Clock, VirtualClock
from bench.emulated_gpu.inprocess import EngineSettings, InProcessEngine
from bench.emulated_gpu.power import PowerModel
from bench.virtual.device import Device, Measured, Used
from bench.virtual.door import Door
from bench.virtual.meter import Meter
from bench.virtual.pilot import Pilot, Steering
from bench.virtual.plugin import Plugin
from bench.virtual.timeline import Cache, Tick, Timeline
from bench.virtual.workload import Ask
from domain.readings.engine import CoreStats
from domain.runtime import EngineRuntime
from domain.slo import Slo
from domain.snapshot import Snapshot
from policies.guards import GuardSettings
from policies.registry import PoliciesSettings

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""The time of the day when the clock is at 0."""
PATIENCE_S = 0.001
"""What passes when a turn of the engine neither computes nor waits for the device."""


class Simulation:
    """One engine, one workload, one governor. `run` may be called again: it goes on where it stopped."""

    def __init__(
        self,
        engine: EngineSettings,
        workload: Iterable[Ask],
        policies: PoliciesSettings | None,
        slos: tuple[Slo, ...] = (),
        *,
        guards: GuardSettings | None = None,
        tick_s: float = 1.0,
        gpu_name: str = "emulated",
        power: PowerModel | None = None,
        later_slos: tuple[Slo, ...] = (),
        steered_by: Callable[[Plugin], Steering] | None = None,
        clock: Clock | None = None,
        executor_class: type[Any] | None = None,
    ) -> None:
        """`policies` None: nobody steers, the engine keeps its start-up settings. `gpu_name` is NVML's, for profiles.

        `workload` is in the order of arrival and may be without end. `later_slos` are those that `aim_at` will bring.
        `steered_by` makes somebody else than the daemon who steers; then `policies` and `guards` are not used.
        `clock` None: a virtual one. With an `executor_class` of vLLM's own the model runs, on the CPU; `clock` is then
        to be the machine's.
        """
        self.clock: Clock = VirtualClock() if clock is None else clock
        self.engine = InProcessEngine(engine, clock=self.clock, executor_class=executor_class)
        self.device: Device = Measured(self.engine) if executor_class else self.engine.executor
        self.plugin = Plugin(self.engine, lambda: EPOCH.timestamp() + self.clock.now_s())
        self._workload = iter(workload)
        self._next = next(self._workload, None)
        self._tick_s = tick_s
        self._next_tick_s = 0.0
        self._door = Door(self.plugin)
        self._meter = Meter(self.engine, self.device, (*slos, *later_slos), gpu_name, power)
        self._pilot: Steering = (
            Pilot(self.plugin, policies, guards or GuardSettings(), slos, tick_s)
            if steered_by is None
            else steered_by(self.plugin)
        )
        self._ticks: list[Tick] = []
        self._core: CoreStats | None = None

    def run(self, seconds: float) -> Timeline:
        """Let `seconds` pass; answers everything since the start."""
        end_s = self.clock.now_s() + seconds
        while self.clock.now_s() < end_s:
            self._let_in()
            if self.clock.now_s() >= self._next_tick_s:
                self._tick()
            elif self.engine.busy:
                self._step()
            else:
                self.clock.sleep_until(min(end_s, self._next_tick_s, self._next.at_s if self._next else end_s))
        return self._timeline()

    def aim_at(self, slos: tuple[Slo, ...]) -> None:
        """Other objectives from the next tick on."""
        self._pilot.slos = slos

    def start_at(self, knobs: Mapping[str, float]) -> None:
        """Put these values in force, as if the engine had been started with them inside its envelope."""
        self.plugin.set(self.plugin.renew(), knobs)

    def close(self) -> None:
        """End the engine."""
        self.engine.close()

    def _timeline(self) -> Timeline:
        device, core = self.device, self._core
        taken = tuple(device.taken) if isinstance(device, Measured) else ()
        return Timeline(
            seconds=self.clock.now_s(),
            ticks=tuple(self._ticks),
            served=tuple(self._meter.served),
            refused=self._door.refused,
            latencies=self._meter.latencies(),
            steps=device.steps,
            turned_away=tuple(self._door.turned_away),
            device=Used(device.busy_s, device.computing_s, taken),
            cache=Cache(core.cache_prompt_tokens or 0, core.cache_hit_tokens or 0) if core else Cache(),
            preemptions=(core.preemptions or 0) if core else 0,
            most_running=self._meter.most_running,
        )

    def _let_in(self) -> None:
        while self._next is not None and self._next.at_s <= self.clock.now_s():
            ask = self._next
            if self._door.lets_in(len(self.engine.scheduler.requests), ask.at_s):
                self._meter.arrived(ask)
                arrived_at = EPOCH.timestamp() + ask.at_s
                self.engine.add_request(ask.request_id, ask.prompt, ask.answer_tokens, arrived_at=arrived_at)
            self._next = next(self._workload, None)

    def _step(self) -> None:
        before = self.clock.now_s(), self.device.steps
        with self.device.turn() if isinstance(self.device, Measured) else nullcontext():
            new_tokens = self.engine.step()
        self._meter.took_step(new_tokens)
        if (self.clock.now_s(), self.device.steps) == before:
            self.clock.sleep_until(before[0] + PATIENCE_S)

    def _tick(self) -> None:
        now_s = self.clock.now_s()
        self._next_tick_s += self._tick_s * (1 + (now_s - self._next_tick_s) // self._tick_s)
        self._door.sync()
        runtime = self.plugin.renew()
        decided = self._pilot.tick(self._read(runtime), runtime)
        self._door.sync()
        runtime = self.plugin.renew()
        self._ticks.append(
            Tick(
                at_s=now_s,
                knobs=_knobs(runtime),
                running=runtime.running,
                waiting=runtime.waiting,
                served=len(self._meter.served),
                refused=self._door.refused,
                view=decided.view,
                decisions=tuple(decided.decisions),
            )
        )

    def _read(self, runtime: EngineRuntime) -> Snapshot:
        stats, now_s = self.plugin.stats(), self.clock.now_s()
        self._core = stats.cores[0]
        return Snapshot(
            now_s,
            EPOCH + timedelta(seconds=now_s),
            vllm=self._meter.vllm(runtime, stats, self._door.refused),
            runtime=runtime,
            engine=stats,
            gpus=self._meter.gpus(),
        )


def _knobs(runtime: EngineRuntime) -> Mapping[str, float]:
    known = {name: runtime.knob(name) for name in runtime.cores[0].knobs}
    return {name: knob.value for name, knob in known.items() if knob is not None and knob.value is not None}
