"""Takes one Snapshot a tick and answers the View of that moment.

Belongs here: which part sees which source, and what is forgotten when. Never: a formula.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from controller.estimation import cache, cores, gpus, load
from controller.estimation.continuity import Ages, Boots, Sleep
from controller.estimation.energy import EnergyAndTokens, EnergyMeter, joules_per_token
from controller.estimation.latencies import completed, latencies, lengths, queue_share
from controller.estimation.requests import Goodput, Imbalance, inside
from controller.estimation.trends import AgedValues, Bar1Swing, RateSwing, Slope
from controller.estimation.windows import RATE_WINDOW_S, STALE_TICKS, Signals, Track, Window
from domain.readings.engine import EngineStats, StepSums
from domain.readings.gpu import GpusReading
from domain.readings.prometheus import LongWindows
from domain.readings.vllm import VllmReading
from domain.slo import Latency, Slo
from domain.snapshot import Snapshot
from domain.view import View

BACKFILLED = ("requests_per_s", "latency_slope_ratio", "bar1_usage_ratio")
"""The signals whose past fills the slow trends."""


class Estimator:
    """Windows of about a minute that `restart_window` cuts off, trends over minutes that it leaves alone, and energy
    since the start. What a source said counts until it is STALE_TICKS ticks old.
    """

    def __init__(self, tick_s: float) -> None:
        self._sleep = Sleep(STALE_TICKS * tick_s)
        self._boots = Boots()
        self._ages = Ages()
        self._vllm: Track[VllmReading] = Track(tick_s)
        self._engine: Track[EngineStats] = Track(tick_s)
        self._gpus: Track[GpusReading] = Track(tick_s)
        self._prometheus: Track[LongWindows] = Track(tick_s)
        self._consumed: Track[EnergyAndTokens] = Track(tick_s)
        self._took_s = 0.0
        self._memory = gpus.MemoryUse()
        self._energy = EnergyMeter()
        self._goodput = Goodput()
        self._rate_swing = RateSwing()
        self._stepped: StepSums | None = None
        self._completed: Window[VllmReading] | None = None
        self._begin_engine()
        self._waiting_fill: Mapping[str, AgedValues] = {}

    def restart_window(self) -> None:
        """Forget what was before: a knob moved or the engine restarted, so older samples speak of another engine."""
        self._vllm.restart()
        self._engine.restart()
        self._consumed.restart()
        self._goodput.restart()

    def backfill(self, samples: Mapping[str, AgedValues]) -> None:
        """What somebody else remembers of the minutes before the start: (age in seconds, value) by signal's name.

        Taken in with the next snapshot. Signals that no trend rests on (see BACKFILLED) are left out.
        """
        self._waiting_fill = {name: values for name, values in samples.items() if name in BACKFILLED}

    def update(self, snapshot: Snapshot, slos: tuple[Slo, ...]) -> View:
        """Take one snapshot in, answer the picture of now."""
        for track in (self._vllm, self._engine, self._gpus, self._prometheus, self._consumed):
            track.lengthen(self._took_s)
        self._took_s = snapshot.took_s
        if self._sleep.over(snapshot):
            self._wake()
        if self._boots.restarted(snapshot):
            self._vllm.forget()
            self._engine.forget()
            self.restart_window()
            self._begin_engine()
        self._take_vllm(snapshot)
        self._take_engine(snapshot, slos)
        self._take_gpus(snapshot)
        self._fill(snapshot.now_s)
        if snapshot.prometheus is not None:
            self._prometheus.add(snapshot.now_s, snapshot.prometheus)
        return self._view(snapshot, slos)

    def _begin_engine(self) -> None:
        """What does not outlive the engine."""
        self._progress = load.Progress()
        self._slope = Slope()
        self._bar1 = Bar1Swing()
        self._imbalance = Imbalance()

    def _wake(self) -> None:
        """The monotonic clock stood still, so nothing has the age that it seems to have."""
        for track in (self._vllm, self._engine, self._gpus, self._prometheus):
            track.forget()
        self.restart_window()
        self._rate_swing = RateSwing()
        self._begin_engine()

    def _take_vllm(self, snapshot: Snapshot) -> None:
        reading, now_s = snapshot.vllm, snapshot.now_s
        self._completed = None
        if reading is None:
            return
        self._completed = self._vllm.onward(now_s, reading)
        goes_on = self._vllm.add(now_s, reading)
        self._progress.take(now_s, reading, goes_on)
        self._rate_swing.take(now_s, reading.requests_finished, goes_on)
        self._slope.take(now_s, reading.latencies.get(Latency.E2E), goes_on)

    def _take_engine(self, snapshot: Snapshot, slos: tuple[Slo, ...]) -> None:
        stats, now_s = snapshot.engine, snapshot.now_s
        self._stepped = None
        if stats is None:
            return
        before = self._engine.current(now_s)
        # The records are counted below, once: kept for the whole window, a busy engine's would take megabytes.
        if self._engine.add(now_s, replace(stats, records=())) and before is not None:
            self._stepped = cores.steps(before, stats)
        else:
            self._goodput.restart()
        wall_s = snapshot.wall.timestamp()
        self._goodput.take(now_s, wall_s, stats.records, slos)
        self._imbalance.take(now_s, wall_s, stats.records)

    def _take_gpus(self, snapshot: Snapshot) -> None:
        reading, now_s = snapshot.gpus, snapshot.now_s
        if reading is None:
            return
        self._gpus.add(now_s, reading)
        self._bar1.take(now_s, reading.devices)
        if not self._energy.take(reading):
            self._consumed.restart()
        energy_j, tokens = self._energy.total_j, snapshot.vllm.generation_tokens if snapshot.vllm else None
        if energy_j is not None and tokens is not None:
            self._consumed.add(now_s, EnergyAndTokens(energy_j, tokens))

    def _fill(self, now_s: float) -> None:
        for name, values in self._waiting_fill.items():
            match name:
                case "requests_per_s":
                    self._rate_swing.fill(now_s, values)
                case "latency_slope_ratio":
                    self._slope.fill(now_s, values)
                case "bar1_usage_ratio":
                    self._bar1.fill(now_s, values)
        self._waiting_fill = {}

    def _view(self, snapshot: Snapshot, slos: tuple[Slo, ...]) -> View:
        now_s = snapshot.now_s
        fresh = self._fresh(now_s)
        found = latencies(self._vllm, now_s)
        signals: Signals = {
            **self._moment(fresh),
            **load.rates(fresh.window),
            **lengths(self._vllm, now_s),
            **cache.traffic(fresh.plugin_window, fresh.stats),
            **self._trends(now_s, fresh),
            **remembered(self._prometheus.current(now_s)),
            "queue_share_ratio": queue_share(found),
        }
        mean_prompt_tokens = signals["mean_prompt_tokens"]
        hits = cache.hit_ratio(fresh.plugin_window, fresh.window, mean_prompt_tokens, self._boots.plugin_met)
        good = self._goodput.ratio(now_s) if fresh.stats is not None else None
        signals["cache_hit_ratio"] = hits
        signals["goodput_ratio"] = good if good is not None else inside(slos, found)
        return View(
            now_s=now_s,
            runtime=snapshot.runtime,
            slos=slos,
            window_s=fresh.window.seconds if fresh.window is not None else 0.0,
            latencies=found,
            completed=completed(self._completed),
            completed_s=self._completed.seconds if self._completed is not None else None,
            steps=self._stepped,
            gpu_names=tuple(device.name for device in fresh.gpus.devices) if fresh.gpus is not None else (),
            ages_s=self._ages.after(snapshot),
            problems=snapshot.problems,
            asleep=fresh.vllm.asleep if fresh.vllm is not None else None,
            prompt_spread=cores.prompt_spread(fresh.stats),
            **signals,  # type: ignore[arg-type]
        )

    def _fresh(self, now_s: float) -> _Fresh:
        plugin = self._engine.window(now_s, RATE_WINDOW_S)
        return _Fresh(
            self._vllm.current(now_s),
            self._engine.current(now_s),
            self._gpus.current(now_s),
            self._vllm.window(now_s, RATE_WINDOW_S),
            plugin if plugin is not None and cores.comparable(plugin) else None,
        )

    def _moment(self, fresh: _Fresh) -> Signals:
        waiting, running = (fresh.vllm.waiting, fresh.vllm.running) if fresh.vllm is not None else (None, None)
        queue = cores.now(fresh.stats, waiting)
        return {
            **queue,
            **load.gauges(fresh.vllm, queue["held"]),
            **cores.batches(fresh.plugin_window, running),
            **gpus.measures(fresh.gpus, self._memory),
            "effective_memory_ratio": gpus.effective_memory(fresh.gpus, self._memory, fresh.stats, fresh.vllm),
        }

    def _trends(self, now_s: float, fresh: _Fresh) -> Signals:
        """Of each only while its source is fresh."""
        signals: Signals = {}
        if fresh.vllm is not None:
            signals["stalled_s"] = self._progress.stalled_s
            signals["requests_per_s_swing_ratio"] = self._rate_swing.ratio(now_s)
            signals["latency_slope_ratio"] = self._slope.ratio(now_s)
        if fresh.stats is not None:
            signals["latency_imbalance"] = self._imbalance.worst(now_s)
        if fresh.gpus is not None:
            signals["bar1_swing_ratio"] = self._bar1.ratio(now_s)
            signals["gpu_energy_j"] = self._energy.total_j
            signals["joules_per_token"] = joules_per_token(self._consumed, now_s)
        return signals


@dataclass(frozen=True, slots=True)
class _Fresh:
    """What each source says now, and the window behind it; None once it is stale."""

    vllm: VllmReading | None
    stats: EngineStats | None
    gpus: GpusReading | None
    window: Window[VllmReading] | None
    plugin_window: Window[EngineStats] | None


def remembered(reading: LongWindows | None) -> Signals:
    """The long windows as they came."""
    if reading is None:
        return {}
    return {
        "requests_per_s_mean_1h": reading.requests_per_s_mean,
        "requests_per_s_peak_1h": reading.requests_per_s_peak,
        "e2e_p99_1h_s": reading.e2e_p99_s,
        "requests_per_s_day_ratio": reading.requests_per_s_day_ratio,
        "e2e_p99_day_ratio": reading.e2e_p99_day_ratio,
    }
