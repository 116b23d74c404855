"""The demonstration itself: start what is needed, walk through the phases, sum up, clean up.

Belongs here: the order of things. Never: how a server, a load or a daemon works, or how a line looks.
"""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from bench.demo import picture, plan
from bench.demo.daemon import Daemon, DaemonError
from bench.demo.meter import Meter, Reading
from bench.demo.plan import Objective, Phase, Step
from bench.demo.screen import Live, Measured, Screen
from bench.demo.target import Target
from bench.load import Load
from controller.engine.client import EngineClient
from domain.decision import Mode, Status
from domain.errors import EngineRefused, RecoverableError, StaleGeneration
from domain.histogram import Histogram
from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS
from domain.runtime import EngineRuntime
from domain.slo import Latency
from store.database import database_url
from store.history import History

STATIC_BATCH = 8
TICK_S = 0.5
LEASE_S = 15.0
LINE_S = 1.0
DAEMON_START_S = 30.0


@dataclass(slots=True)
class Walk:
    """What one run of the demonstration carries from phase to phase."""

    target: Target
    screen: Screen
    daemon: Daemon
    client: EngineClient
    meter: Meter
    history: History
    load: Load | None
    observe_only: bool
    stop: asyncio.Event
    started_s: float = field(default_factory=time.monotonic)
    measured: dict[Phase, Measured] = field(default_factory=dict)
    windows: dict[Phase, tuple[float, float]] = field(default_factory=dict)
    objective: Objective | None = None
    last_decision: int = 0
    lines: list[Live] = field(default_factory=list)


async def demonstrate(
    target: Target, steps: tuple[Step, ...], folder: Path, screen: Screen, mode: Mode
) -> dict[str, Any]:
    """Run all phases against `target`; answers the summary that the last line of output is."""
    history_file = folder / "history.db"
    async with AsyncExitStack() as stack:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        session = await stack.enter_async_context(aiohttp.ClientSession())
        client = EngineClient(session, target.url, target.token_file, timeout_s=5.0)
        found = await client.runtime()  # a missing plugin or a wrong token ends it here, with its sentence
        if any(core.lease_remaining_s is not None for core in found.cores):
            raise EngineRefused(f"another governor holds the lease of {target.url}: stop it first")
        daemon = Daemon(folder, _daemon_settings(target, history_file))
        history = History(database_url(str(history_file)))
        stack.push_async_callback(history.close)
        await history.open()
        stack.push_async_callback(daemon.stop)
        load = Load(target.url, target.model, target.load) if target.load is not None else None
        walk = Walk(target, screen, daemon, client, Meter(session, client), history, load, mode is Mode.OBSERVE, stop)
        daemon.start(**_phase_settings(walk, steps[0].phase))
        await _until_steered(walk)
        if load is not None:
            await load.start()
            stack.push_async_callback(load.stop)
        for step in steps:
            if stop.is_set() or (step.phase is Phase.AT_MAX and not _set_objective(walk)):
                break
            await _run(walk, step)
        if load is not None:
            await load.stop()
        await daemon.stop()
        return await _sum_up(walk, history_file, folder)


def _daemon_settings(target: Target, history_file: Path) -> dict[str, Any]:
    engine: dict[str, Any] = {"url": target.url, "lease_s": LEASE_S}
    if target.token_file is not None:
        engine["token_file"] = str(target.token_file)
    return {"tick_s": TICK_S, "engine": engine, "store": {"url": str(history_file)}}


def _phase_settings(walk: Walk, phase: Phase) -> dict[str, Any]:
    """The daemon's mode and objective in a phase. Traffic that is not ours is somebody's: it never gets `static`."""
    modes = {Phase.BEFORE: Mode.STATIC, Phase.GOVERNED: Mode.AUTO, Phase.AT_MAX: Mode.MANUAL, Phase.SLO: Mode.AUTO}
    mode = modes[phase] if walk.load is not None or phase is not Phase.BEFORE else Mode.OBSERVE
    settings: dict[str, Any] = {"mode": Mode.OBSERVE.value if walk.observe_only else mode.value}
    settings["policies"] = {"static": {"fixed_batch_size": STATIC_BATCH}}
    if walk.objective is not None:
        settings["slo"] = {Latency.ITL.value: asdict(walk.objective)}
    return settings


async def _until_steered(walk: Walk) -> None:
    """Wait until the daemon holds the lease and, where the first phase is static, the batch is: then the load
    starts.
    """
    static = _phase_settings(walk, Phase.BEFORE)["mode"] == Mode.STATIC.value
    give_up_s = time.monotonic() + DAEMON_START_S
    while not walk.stop.is_set():
        walk.daemon.check()
        runtime = await walk.client.runtime()
        held = all(core.lease_remaining_s is not None for core in runtime.cores)
        if held and (not static or _value(runtime, MAX_NUM_SEQS) == STATIC_BATCH):
            break
        if time.monotonic() > give_up_s:
            raise DaemonError(f"the governor did not take over within {DAEMON_START_S:.0f} s; see {walk.daemon.log}")
        await asyncio.sleep(0.2)
    walk.started_s = time.monotonic()


async def _run(walk: Walk, step: Step) -> None:
    walk.screen.phase(step.phase, step.explanation)
    if walk.windows:
        walk.daemon.configure(**_phase_settings(walk, step.phase))
    if step.phase is Phase.AT_MAX and not walk.observe_only:
        await _set_to_maximum(walk)
    start_s = time.monotonic()
    walk.windows[step.phase] = (start_s, start_s)
    end_s = None if step.length_s is None else start_s + step.length_s
    while not walk.stop.is_set() and (end_s is None or time.monotonic() < end_s):
        walk.daemon.check()
        walk.target.check()
        reading = await walk.meter.read()
        walk.lines.append(_line(walk, step.phase, reading))
        walk.screen.live(walk.lines[-1])
        await _show_decisions(walk)
        walk.windows[step.phase] = (start_s, time.monotonic())
        pause_s = LINE_S if end_s is None else min(LINE_S, max(0.0, end_s - time.monotonic()))
        try:
            await asyncio.wait_for(walk.stop.wait(), pause_s)
        except TimeoutError:
            continue
    await walk.meter.read()
    walk.windows[step.phase] = (start_s, time.monotonic())
    walk.measured[step.phase] = _measure(walk, step.phase)


def _measure(walk: Walk, phase: Phase) -> Measured:
    start_s, end_s = walk.windows[phase]
    since_s = plan.measured_from(start_s, end_s, walk.meter.last_change_s(MAX_NUM_SEQS, start_s, end_s))
    itl = walk.meter.itl(since_s, end_s)
    over = _over(walk, itl)
    if walk.load is None:
        return Measured(walk.meter.requests_per_s(since_s, end_s), None, over, end_s - since_s)
    stats = walk.load.stats(since_s, end_s)
    return Measured(stats.rps, stats.p99_s, over, end_s - since_s)


def _set_objective(walk: Walk) -> bool:
    """Choose an objective that the small batch keeps and the large one misses; False when they do not differ."""
    small, large = (_itl(walk, phase) for phase in (Phase.BEFORE, Phase.GOVERNED))
    walk.objective = plan.objective(small, large) if small is not None and large is not None else None
    if walk.objective is None:
        medians = " and ".join(_ms(h.quantile(0.5) if h is not None else None) for h in (small, large))
        walk.screen.say(
            "\nThe objective phases are left out: inter-token latency before and after does not differ enough "
            f"(medians {medians})."
        )
        return False
    walk.screen.say(
        f"\nObjective: {walk.objective.percentile:.0f} % of tokens within {_ms(walk.objective.bound_s)} of the one "
        "before, chosen between what the small and the large batch just showed."
    )
    return True


def _itl(walk: Walk, phase: Phase) -> Histogram | None:
    start_s, end_s = walk.windows[phase]
    return walk.meter.itl(
        plan.measured_from(start_s, end_s, walk.meter.last_change_s(MAX_NUM_SEQS, start_s, end_s)), end_s
    )


def _over(walk: Walk, itl: Histogram | None) -> float | None:
    return itl.fraction_above(walk.objective.bound_s) if itl is not None and walk.objective is not None else None


def _ms(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds * 1000:.3g} ms"


async def _set_to_maximum(walk: Walk) -> None:
    """As an operator would who grows blindly: the cap at the start-up maximum."""
    for _ in range(5):
        runtime = await walk.client.runtime()
        knob = runtime.knob(MAX_NUM_SEQS)
        if knob is None or knob.maximum is None or knob.value == knob.maximum:
            return
        try:
            await walk.client.set_knobs(runtime, {MAX_NUM_SEQS: knob.maximum}, LEASE_S)
        except StaleGeneration:
            await asyncio.sleep(TICK_S)
    raise EngineRefused("the cap could not be set to its start-up maximum: something else keeps changing the engine")


def _line(walk: Walk, phase: Phase, reading: Reading) -> Live:
    runtime = reading.runtime
    now_s = reading.at_s
    stats = walk.load.stats(now_s - 2 * LINE_S, now_s) if walk.load is not None else None
    itl = walk.meter.itl(now_s - 3 * LINE_S, now_s)
    return Live(
        elapsed_s=now_s - walk.started_s,
        phase=phase,
        requests_per_s=stats.rps if stats else walk.meter.requests_per_s(now_s - 5 * LINE_S, now_s),
        p99_s=stats.p99_s if stats else None,
        running=runtime.running if runtime else None,
        waiting=runtime.waiting if runtime else None,
        cap=_value(runtime, MAX_NUM_SEQS),
        budget=_value(runtime, MAX_NUM_BATCHED_TOKENS),
        over_ratio=_over(walk, itl),
    )


def _value(runtime: EngineRuntime | None, name: str) -> float | None:
    knob = runtime.knob(name) if runtime is not None else None
    return knob.value if knob is not None else None


async def _show_decisions(walk: Walk) -> None:
    """Print what is new in the history, up to the first change whose outcome is not known yet."""
    try:
        rows = await walk.history.decisions.select(limit=50, after_id=walk.last_decision)
    except RecoverableError as error:
        walk.screen.say(f"        {error}")
        return
    for row in rows:
        if row.decision.status is Status.INTENDED:
            return
        walk.screen.decision(row.decision)
        walk.last_decision = row.id


async def _sum_up(walk: Walk, history_file: Path, folder: Path) -> dict[str, Any]:
    await _show_decisions(walk)
    rows = await walk.history.decisions.select()
    applied = sum(row.decision.status is Status.APPLIED for row in rows)
    walk.screen.summary(
        {phase.value: row for phase, row in walk.measured.items()},
        bound_s=walk.objective.bound_s if walk.objective else None,
        decisions=len(rows),
        applied=applied,
    )
    failed = walk.load.failed_total if walk.load is not None else None
    if walk.load is not None and walk.load.causes:
        walk.screen.say(f"Failed requests: {dict(walk.load.causes)}")
    starts = [(phase.value, start_s - walk.started_s) for phase, (start_s, _) in walk.windows.items()]
    picture.draw(walk.lines, starts, walk.objective.bound_s if walk.objective else None, folder / "run.svg")
    walk.screen.look_further(history_file, folder)
    nothing = Measured(None, None, None, 0.0)
    before, after = walk.measured.get(Phase.BEFORE, nothing), walk.measured.get(Phase.GOVERNED, nothing)
    return {
        "before_rps": _rounded(before.requests_per_s),
        "after_rps": _rounded(after.requests_per_s),
        "before_p99_s": _rounded(before.p99_s),
        "after_p99_s": _rounded(after.p99_s),
        "slo_phase": {
            "itl_over_slo_at_max": _rounded(walk.measured.get(Phase.AT_MAX, nothing).itl_over_ratio),
            "itl_over_slo_ours": _rounded(walk.measured.get(Phase.SLO, nothing).itl_over_ratio),
        },
        "decisions": len(rows),
        "applied": applied,
        "failed_requests": failed,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
