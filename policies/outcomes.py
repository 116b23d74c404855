"""Changes on trial: when each is judged, what is wanted back, which settings are remembered as bad.

Pure and driven by views, so a replay reaches the same verdicts. Belongs here: the order of things. Never: the
comparison (policies/judgement.py), writing a verdict down (controller/history/outcome.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from domain.decision import Priority, Proposal, Reason
from domain.outcome import Outcome, Refuted, Verdict
from domain.runtime import EngineRuntime
from domain.slo import Slo
from domain.view import View
from policies.evidence import SMOOTHED_S, Load, Tick, load_of, matching, tick_of
from policies.judgement import JudgementSettings, compare
from policies.regimes import Regime, active, remember
from policies.trial import Change, Trial, delay_s, finite, joined, shown, superseded

NAME = "outcomes"
BASELINE_S = 300.0
"""So long may changes follow each other before what was before the first of them is too long ago to compare with."""
WANTED_BACK_S = 60.0
"""An undo that the guards withheld for so long is given up."""


@dataclass(frozen=True, slots=True)
class Undo:
    """A value that is wanted back."""

    knob: str
    bad: float
    value: float
    sentence: str
    until_s: float


@dataclass(frozen=True, slots=True)
class OutcomesState:
    """Plain values; times are the View's monotonic seconds."""

    boot_id: str | None = None
    values: tuple[tuple[str, float | None], ...] = ()
    """Each knob's value at the view before."""
    ticks: tuple[Tick, ...] = ()
    """Since a knob last moved."""
    settled_s: float = 0.0
    """Those up to here still speak of older values."""
    slos: tuple[Slo, ...] = ()
    trial: Trial | None = None
    undo: tuple[Undo, ...] = ()
    regimes: tuple[Regime, ...] = ()


Verdicts = dict[str, Outcome]
"""By the uid of the change."""


def observe(state: OutcomesState, view: View, settings: JudgementSettings) -> tuple[OutcomesState, Verdicts]:
    """Take a view in; the verdicts that are due."""
    state, verdicts = _met(state, view)
    tick = tick_of(view, state.ticks[-1] if state.ticks else None)
    if tick is not None:
        kept = max(settings.before_s, settings.after_max_s)
        ticks = (*(one for one in state.ticks if view.now_s - one.now_s <= kept), tick)
        state = replace(state, ticks=ticks)
    state = replace(state, slos=view.slos, undo=tuple(one for one in state.undo if _still_wanted(one, view)))
    trial = state.trial
    if trial is None or view.now_s - trial.settled_s < settings.after_s:
        return state, verdicts
    waited = view.now_s - trial.settled_s >= settings.after_max_s
    if not waited and _has_baseline(trial, settings) and not _enough(state, trial, settings):
        return state, verdicts
    state, reached = _conclude(state, trial, view, settings)
    return state, verdicts | reached


def changed(
    state: OutcomesState, view: View, changes: Sequence[Change], settings: JudgementSettings
) -> tuple[OutcomesState, Verdicts]:
    """Changes were made at this view. The trial that is on is concluded on what there is, else goes on in theirs."""
    if not changes:
        return state, {}
    state, verdicts = _make_room(state, view, changes, settings)
    trial = state.trial
    if trial is None:
        earlier: tuple[Change, ...] = ()
        before = tuple(
            one for one in _settled(state.ticks, state.settled_s) if view.now_s - one.now_s <= settings.before_s
        )
        until_s = view.now_s
    else:
        before, earlier, until_s = trial.before, trial.changes, trial.before_until_s
    joint = joined(earlier, changes)
    settled_s = view.now_s + max(delay_s(one.knob) for one in joint)
    fresh = Trial(joint, view.now_s, settled_s, before, until_s)
    return replace(state, trial=fresh, undo=(), ticks=state.ticks[-1:], settled_s=settled_s), verdicts


def _make_room(
    state: OutcomesState, view: View, changes: Sequence[Change], settings: JudgementSettings
) -> tuple[OutcomesState, Verdicts]:
    """End the trial that is on, or leave it on for the changes whose place the new ones do not take."""
    trial = state.trial
    if trial is None:
        return state, {}
    if not _has_baseline(trial, settings):
        why = "Unclear: too little was measured before the change to compare with."
        return replace(state, trial=None), _all_unclear(trial, why)
    if _enough(state, trial, settings):
        state, verdicts = _conclude(state, trial, view, settings)
        return state, {uid: replace(said, undo=False) for uid, said in verdicts.items()}
    if view.now_s - trial.before_until_s > BASELINE_S:
        why = f"Unclear: changes followed each other for over {BASELINE_S:.0f} s, none could be judged."
        return replace(state, trial=None), _all_unclear(trial, why)
    by_knob = {one.knob: one for one in changes}
    after_s = view.now_s - trial.began_s
    return state, {one.uid: superseded(by_knob[one.knob], after_s) for one in trial.changes if one.knob in by_knob}


def proposals(state: OutcomesState) -> tuple[Proposal, ...]:
    """The values that are wanted back."""
    return tuple(
        Proposal(
            NAME,
            one.knob,
            one.value,
            Reason.UNDO_WORSE,
            one.sentence,
            evidence={"bad": finite(one.bad)},
            priority=Priority.ROLLBACK,
        )
        for one in state.undo
    )


def refuted(state: OutcomesState, view: View) -> frozenset[Refuted]:
    """The settings that proved bad at the load there is now. A load that is not known is taken for the same."""
    return active(state.regimes, view, _load_now(state, view.now_s))


def _met(state: OutcomesState, view: View) -> tuple[OutcomesState, Verdicts]:
    """Notice another boot, and a knob that somebody else moved: nothing before that compares."""
    runtime = view.runtime
    if runtime is None:
        return state, {}
    values = _values(runtime)
    if state.boot_id != runtime.boot_id:
        why = "Unclear: the engine began anew before the change could be judged."
        fresh = OutcomesState(boot_id=runtime.boot_id, values=values, settled_s=view.now_s, regimes=state.regimes)
        return fresh, _all_unclear(state.trial, why)
    if values == state.values:
        return state, {}
    foreign = _foreign(state, values, view.now_s)
    state = replace(state, values=values)
    if not foreign:
        return state, {}
    why = f"Unclear: {', '.join(foreign)} moved by another hand before the change could be judged."
    settled_s = view.now_s + max(map(delay_s, foreign))
    return replace(state, trial=None, ticks=state.ticks[-1:], settled_s=settled_s), _all_unclear(state.trial, why)


def _values(runtime: EngineRuntime) -> tuple[tuple[str, float | None], ...]:
    """What each knob reads, of several engine cores the lowest."""
    found: dict[str, float | None] = {}
    for core in runtime.cores:
        for name, knob in core.knobs.items():
            value, other = knob.value, found.get(name, knob.value)
            found[name] = None if value is None or other is None else min(value, other)
    return tuple(found.items())


def _foreign(state: OutcomesState, values: tuple[tuple[str, float | None], ...], now_s: float) -> list[str]:
    """Knobs that moved and not by a change on trial. While that takes effect, the engine may move others with it."""
    before, trial = dict(state.values), state.trial
    ours = {one.knob: one.new for one in trial.changes} if trial is not None else {}
    unsettled = trial is not None and now_s <= trial.settled_s
    return [
        name
        for name, value in values
        if value != before.get(name) and (value != ours[name] if name in ours else not unsettled)
    ]


def _all_unclear(trial: Trial | None, why: str) -> Verdicts:
    return {one.uid: Outcome(Verdict.UNCLEAR, why) for one in trial.changes} if trial is not None else {}


def _has_baseline(trial: Trial, settings: JudgementSettings) -> bool:
    """Whether there is something to compare with."""
    load = load_of(trial.before)
    return load is not None and _matched(trial.before, load, settings) >= settings.min_ticks


def _enough(state: OutcomesState, trial: Trial, settings: JudgementSettings) -> bool:
    """Whether a comparison would come to a verdict, given a baseline."""
    load, after = load_of(trial.before), _after(state, trial)
    if load is None or _matched(after, load, settings) < settings.min_ticks:
        return False
    return sum(tick.finished for tick in after) >= settings.min_samples


def _matched(ticks: Sequence[Tick], load: Load, settings: JudgementSettings) -> int:
    return len(matching(ticks, load, settings.load_tolerance_ratio))


def _after(state: OutcomesState, trial: Trial) -> tuple[Tick, ...]:
    return _settled(state.ticks, trial.settled_s)


def _settled(ticks: tuple[Tick, ...], settled_s: float) -> tuple[Tick, ...]:
    """What was measured wholly after that moment."""
    return tuple(tick for tick in ticks if tick.now_s - tick.seconds >= settled_s)


def _conclude(
    state: OutcomesState, trial: Trial, view: View, settings: JudgementSettings
) -> tuple[OutcomesState, Verdicts]:
    outcome, _ = compare(trial.before, _after(state, trial), state.slos, settings)
    undone = [one for one in trial.changes if one.reversible and one.old != one.new] if outcome.undo else []
    if outcome.undo and not undone:
        outcome = replace(outcome, undo=False)
    load = load_of(trial.before)
    regimes = state.regimes
    for one in undone:
        regimes = remember(regimes, one.knob, one.new, one.old, view, load, settings)
    undo = tuple(
        Undo(one.knob, one.new, one.old, _why_undone(one, outcome), view.now_s + WANTED_BACK_S) for one in undone
    )
    verdicts = {one.uid: _with_company(one, trial, outcome) for one in trial.changes}
    return replace(state, trial=None, undo=undo, regimes=regimes), verdicts


def _why_undone(change: Change, outcome: Outcome) -> str:
    said = outcome.sentence.removeprefix("Worse: ").rstrip(".")
    return f"Undoing {change.knob} {shown(change.old)} -> {shown(change.new)}: since then {said}."


def _with_company(change: Change, trial: Trial, outcome: Outcome) -> Outcome:
    """What this change was compared with, and which changes share the verdict."""
    others = [one.knob for one in trial.changes if one is not change]
    numbers: dict[str, float | str | None] = {**outcome.numbers, "instead_of": finite(change.old)}
    if others:
        numbers["together_with"] = ", ".join(others)
    return replace(outcome, numbers=numbers)


def _still_wanted(undo: Undo, view: View) -> bool:
    """Until the knob was moved, by whomever, or too long has passed."""
    knob = view.knob(undo.knob)
    return view.now_s < undo.until_s and (knob is None or knob.value == undo.bad)


def _load_now(state: OutcomesState, now_s: float) -> Load | None:
    return load_of([tick for tick in state.ticks if now_s - tick.now_s < SMOOTHED_S])
