"""What is wrong now, each with its cause and what to do about it: the same sentences in all faces.

Belongs here: from what the loop saw to problems. Never: finding out (sensors, policies/diagnosis), alerts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controller.loop import Loop
from controller.operations.changes import RunTime
from controller.operations.permission import steered_by_another
from domain.snapshot import Source
from store.health import Trouble
from store.writer import WriterState


@dataclass(frozen=True, slots=True)
class Problem:
    """`what` names it in a word (`engine`, `history`, `lease`); reason and remedy are clauses for people."""

    what: str
    reason: str
    remedy: str


REMEDIES: Mapping[Source, str] = {
    Source.METRICS: "see that vLLM serves /metrics there and was not started with --disable-log-stats",
    Source.STATS: "policies that need the plugin's statistics abstain meanwhile; vLLM's log says what is wrong there",
    Source.GPU: "control goes on without it; nvidia-smi and dmesg say what is wrong with the driver",
    Source.PROMETHEUS: "long windows are not known meanwhile; see that prometheus.url and its token are right",
}
HISTORY_REMEDIES: Mapping[Trouble, str] = {
    Trouble.FULL: "make room on its disk, or raise store.max_mb; control goes on and what is to be written waits",
    Trouble.LOCKED: "end the process that holds the lock; control goes on and what is to be written waits",
    Trouble.READ_ONLY: "let the daemon write its directory (ReadWritePaths= under systemd); meanwhile the rest waits",
    Trouble.CORRUPT: "it is set aside whole and a new one is begun; keep the old one if its rows matter",
}
OTHER_REMEDY = "see the daemon's log and the database's; control goes on and what is to be written waits"


def problems(loop: Loop, run_time: RunTime, reload_failure: str | None) -> tuple[Problem, ...]:
    """Worst first; empty: all is well."""
    found = [*_of_engine(loop), *_of_loop(loop), *_of_sources(loop), *_of_history(loop.observed.history)]
    return (*found, *_of_memory(loop, run_time), *_of_settings(run_time, reload_failure), *_of_receivers(loop))


def _of_engine(loop: Loop) -> Iterator[Problem]:
    if (other := steered_by_another(loop)) is not None:
        yield Problem("lease", other.reason, "stop one of the two; this one takes over as soon as the other has ended")
    snapshot, runtime = loop.observed.snapshot, loop.observed.runtime
    if snapshot is not None and runtime is None:
        why = snapshot.problems.get(Source.RUNTIME, "it was not asked yet")
        url = loop.settings.engine.url
        yield Problem(
            "engine", why, f"start vLLM with the governor's plugin at {url}, or set engine.url to where it is"
        )
    if runtime is None:
        return
    for part in dict.fromkeys(part for core in runtime.cores for part in core.degraded):
        yield Problem("plugin", part, "the rest goes on; restart vLLM to try it again, and see docs/rpc.md")
    if loop.held_by is None and any(core.lease_remaining_s is None for core in runtime.cores):
        yield Problem("lease", "the engine says that nobody holds its lease", "it is taken again at the next tick")


def _of_loop(loop: Loop) -> Iterator[Problem]:
    observed = loop.observed
    if observed.ticks and not loop.observed.fresh(loop.clock().monotonic_s):
        at = observed.succeeded_at
        since = "since the start" if at is None else f"since {at:%Y-%m-%d %H:%M:%S} UTC"
        yield Problem("loop", f"no tick has succeeded {since}", "the daemon's log says why; restart it if it hangs")


def _of_sources(loop: Loop) -> Iterator[Problem]:
    snapshot = loop.observed.snapshot
    for source, why in (snapshot.problems if snapshot is not None else {}).items():
        if source in REMEDIES:
            yield Problem(source.value, why, REMEDIES[source])


def _of_history(state: WriterState | None) -> Iterator[Problem]:
    if state is None:
        return
    if state.problem is not None:
        remedy = OTHER_REMEDY if state.trouble is None else HISTORY_REMEDIES.get(state.trouble, OTHER_REMEDY)
        yield Problem("history", state.problem, remedy)
    if state.dropped:
        reason = f"{state.dropped} writes were given up since the start: more waited than store.queue allows"
        yield Problem("history", reason, "what is lost is lost; make the history writable, or raise store.queue")
    if state.set_aside is not None:
        reason = f"a damaged history was moved to {state.set_aside} at the start"
        yield Problem("history", reason, "look at it with `vllm-governor db check`, then delete it")


def _of_memory(loop: Loop, run_time: RunTime) -> Iterator[Problem]:
    rollback, kept = loop.rollback
    remedy = "make the history writable before you restart the daemon"
    if rollback is not None and not kept:
        yield Problem("rollback", "a restart of the daemon would not know of it", remedy)
    if loop.overrides.standing and not loop.overrides.kept:
        yield Problem("overrides", "a restart of the daemon would not know of them", remedy)
    if not run_time.known:
        reason = "what was changed at run time before the start is not known yet: the history does not answer"
        yield Problem("settings", reason, "the file's settings count meanwhile; make the history readable")
    elif run_time.changes.names() and not run_time.kept:
        yield Problem("settings", "a restart of the daemon would not know of the changes at run time", remedy)


def _of_settings(run_time: RunTime, reload_failure: str | None) -> Iterator[Problem]:
    if reload_failure is not None:
        yield Problem("settings", reload_failure, "the old settings stay; put the file right and reload")
    for one in run_time.left_out:
        yield Problem("settings", f"changed at run time, and left out now: {one}", "set it anew, or take it back")


def _of_receivers(loop: Loop) -> Iterator[Problem]:
    for name, one in loop.alerting.receivers().items():
        if one.failing_s > 0:
            reason = f"the receiver {name} was not reached for {one.failing_s:.0f} s: {one.last_error or 'no answer'}"
            yield Problem("alerts", reason, "put its address or token right; what is to be sent waits")
