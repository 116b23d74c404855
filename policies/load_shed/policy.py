"""The policy: bound the queue, hold it, let go; and the evidence that goes with it.

Belongs here: cause, calm and the sentence of each. Never: whether anything is left to give (limits.py).
"""

from __future__ import annotations

import math
from dataclasses import replace

from domain.decision import Evidence, Proposal, Reason
from domain.knobs import MAX_NUM_QUEUED_REQS, NO_LIMIT
from domain.runtime import Knob
from domain.slo import Latency
from domain.view import View
from policies.batch_resize import BatchResizeSettings
from policies.hysteresis import Waits, step
from policies.load_shed import limits
from policies.load_shed.settings import LoadShedSettings
from policies.load_shed.state import LoadShedState, observe
from policies.verdict import Verdict, judge


class LoadShed:
    """Bounds the queue when it breaks the objective, or will, and nothing else can help; lets go with hysteresis.

    `batch`: what the cap may be raised to is that policy's number.
    """

    name = "load_shed"

    def __init__(self, settings: LoadShedSettings, batch: BatchResizeSettings | None = None) -> None:
        self.settings = settings
        self.batch = batch if batch is not None else BatchResizeSettings()

    def initial_state(self) -> LoadShedState:
        """Before the first view."""
        return LoadShedState()

    def decide(self, state: LoadShedState, view: View) -> tuple[LoadShedState, tuple[Proposal, ...]]:
        """One proposal for max_num_queued_reqs."""
        knob = view.knob(MAX_NUM_QUEUED_REQS)
        if knob is None or knob.value is None:
            why = "No proposal: the engine has no queue limit to steer, or has not answered."
            return state, (Proposal(self.name, MAX_NUM_QUEUED_REQS, None, Reason.ABSTAIN_UNKNOWN, why),)
        state = observe(state, view, bounded=knob.value <= self.settings.queue_limit and knob.value != _free(knob))
        cause, calm = self._cause(state, view), self._calm(view, knob.value)
        waits = Waits(on_s=self.settings.breach_for_s, off_s=self.settings.release_for_s)
        shed = step(state.shed, view.now_s, cause[0], calm[0], waits)
        limit = self._limit(view) if shed.on and not state.shed.on else state.limit
        state = replace(state, shed=shed, limit=limit)
        return state, (self._proposal(state, view, knob, cause[1], calm[1]),)

    def _proposal(self, state: LoadShedState, view: View, knob: Knob, cause: str, calm: str) -> Proposal:
        free, now = _free(knob), knob.value
        if state.shed.on:
            limit = state.limit if state.limit is not None else float(self.settings.queue_limit)
            if now is not None and now <= limit:
                sentence = f"Holding {now:g} in the queue: {calm}; {self._rejected(view)}."
                reason = Reason.HOLD_QUEUE_BREACH if now != free else Reason.HOLD_AT_LIMIT
                return self._propose(view, now, reason, sentence)
            sentence = f"At most {limit:g} may wait{self._served(view, limit)}: {cause}; {self._rejected(view)}."
            return self._propose(view, limit, Reason.SHED_QUEUE, sentence)
        if now == free:
            return self._propose(view, now, Reason.HOLD_STEADY, f"No limit beyond the start-up one: {cause}.")
        sentence = f"The queue is let go: {calm}; {self._rejected(view)}."
        return self._propose(view, free, Reason.SHED_RELEASE, sentence)

    def _limit(self, view: View) -> float:
        """As many as are served within the wait that is allowed, by the present rate; at most the seeds' 100."""
        rate, bound_s, most = view.requests_per_s, self._bound_s(view), self.settings.queue_limit
        if not rate or bound_s is None:
            return float(most)
        return float(max(1, min(most, math.floor(rate * self.settings.wait_ratio * bound_s))))

    def _served(self, view: View, limit: float) -> str:
        bound_s = self._bound_s(view)
        if limit >= self.settings.queue_limit or bound_s is None or view.requests_per_s is None:
            return ""
        wait_s = self.settings.wait_ratio * bound_s
        return f", as many as {view.requests_per_s:.3g} requests/s serve in {wait_s:.3g} of {bound_s:g} s"

    def _bound_s(self, view: View) -> float | None:
        """Of the hardest objective for the time to first token that somebody set."""
        set_by_somebody = (slo for slo in view.slos if slo.latency is Latency.TTFT and not slo.proposed)
        return min((slo.bound_s for slo in set_by_somebody), default=None)

    def _cause(self, state: LoadShedState, view: View) -> tuple[bool | None, str]:
        """Whether there is cause to bound the queue, None for unknown, and why as a clause."""
        # Nobody is turned away for a number that nobody set.
        verdicts = [judge(view, slo) for slo in view.slos if slo.latency is Latency.TTFT and not slo.proposed]
        if not verdicts:
            return False, "nobody set an objective for the time to first token"
        worst = max(verdicts, key=lambda v: v.excess)
        found, why = self._broken(view, worst) if worst.breached else self._foreseen(view, worst)
        if not found:
            return found, why
        spent = limits.spent(self.settings, self.batch, state, view)
        if spent is None:
            return False, f"{why}, but something may still be raised"
        return True, f"{why}, and {spent}"

    def _broken(self, view: View, worst: Verdict) -> tuple[bool | None, str]:
        """The objective is broken: whether by the queue."""
        queue, ttft = (view.latencies.get(one) for one in (Latency.QUEUE, Latency.TTFT))
        queue_s, ttft_s = (one.mean if one is not None else None for one in (queue, ttft))
        if queue_s is None or ttft_s is None or view.demand is None:
            return None, f"{worst.describe()}, but how much of it is the queue is not known"
        if view.demand <= 0 or queue_s < self.settings.queue_share * ttft_s:
            share = f"{queue_s:.3g} of {ttft_s:.3g} s in the mean are spent in the queue and {view.demand:.0f} wait"
            return False, f"{worst.describe()}, but {share}"
        return True, f"{worst.describe()}, {view.demand:.0f} wait for {queue_s:.3g} s in the mean"

    def _foreseen(self, view: View, worst: Verdict) -> tuple[bool | None, str]:
        """The objective is not known to be broken: whether it will be, as those who wait now are served too late."""
        bound_s, wait_s = self._bound_s(view) or 0.0, _wait_s(view)
        if wait_s is None or wait_s < self.settings.wait_ratio * bound_s:
            if worst.over_ratio is None:
                return None, "the time to first token is not known"
            return False, f"{worst.describe()}, which is no breach beyond noise"
        waited = f"{view.demand or 0:.0f} wait, some of them for {wait_s:.3g} of {bound_s:g} s"
        full = limits.full(self.settings, view)
        if full is None:
            return None, f"{waited}, but whether anything is used up is not known"
        return full, waited if full else f"{waited}, but nothing is used up"

    def _calm(self, view: View, limit: float) -> tuple[bool | None, str]:
        """Whether the queue may be let go, None for unknown, and why as a clause."""
        s, waiting = self.settings, view.waiting
        if waiting is None:
            return None, "how many wait is not known"
        most = s.release_ratio * min(limit, s.queue_limit)
        if waiting > most:
            return False, f"{waiting:.0f} wait ({most:.0f} at most to let go)"
        verdicts = [judge(view, slo) for slo in view.slos if slo.latency is Latency.TTFT]
        idle = waiting == 0 and view.running == 0
        for verdict in [] if idle else verdicts:
            if not self._kept(verdict):
                return (None if verdict.samples < s.min_samples else False), f"{verdict.describe()}, {waiting:.0f} wait"
        kept = "; ".join(v.describe() for v in verdicts if v.samples > 0) or "nobody is late"
        return True, f"{waiting:.0f} wait; {kept}"

    def _kept(self, verdict: Verdict) -> bool:
        if verdict.over_ratio is None or verdict.samples < self.settings.min_samples:
            return False
        return verdict.excess <= self.settings.slo_margin_ratio

    def _rejected(self, view: View) -> str:
        """What the seeds say of the share that was turned away."""
        ratio, s = view.rejected_ratio, self.settings
        if ratio is None:
            return "how many are turned away is not known"
        if ratio < s.rejected_pass_ratio:
            return f"{ratio:.2%} are turned away (under {s.rejected_pass_ratio:.1%})"
        mark = s.rejected_alert_ratio if ratio > s.rejected_alert_ratio else s.rejected_pass_ratio
        return f"{ratio:.2%} are turned away (over {mark:.1%})"

    def _propose(self, view: View, wanted: float | None, reason: Reason, sentence: str) -> Proposal:
        evidence: Evidence = {
            "waiting": view.waiting,
            "demand": view.demand,
            "oldest_waiting_s": view.oldest_waiting_s,
            "requests_per_s": view.requests_per_s,
            "rejected_ratio": view.rejected_ratio,
            "kv_cache_usage_ratio": view.kv_cache_usage_ratio,
            "batch_utilization_ratio": view.batch_utilization_ratio,
            **{f"{slo.latency}_over_ratio": view.over_ratio(slo) for slo in view.slos},
            **{f"{slo.latency}_samples": view.samples(slo.latency) for slo in view.slos},
        }
        return Proposal(self.name, MAX_NUM_QUEUED_REQS, wanted, reason, sentence, evidence)


def _wait_s(view: View) -> float | None:
    """What waits for room will have waited at least: the first in the queue, or the last by the present rate, whichever
    is longer. 0 when nobody does; None: not known.
    """
    if not view.demand:
        return view.demand
    last_s = view.demand / view.requests_per_s if view.requests_per_s else None
    return max((wait_s for wait_s in (view.oldest_waiting_s, last_s) if wait_s is not None), default=None)


def _free(knob: Knob) -> float:
    """The limit that the server was started with, if any."""
    return NO_LIMIT if knob.startup is None else knob.startup
