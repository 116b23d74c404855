"""Sums over steps: what the capacity model and the batch utilisation are made of.

Here: tokens, context, seconds, their products, budget, running and waiting. Never here: a fit or a ratio.

A step's seconds are the time from its schedule() call, or from the end of the step before it if that is later, to the
end of its own update_from_output(). Under the sync scheduler that is the step from its scheduling to its tokens; under
the async one, where the next batch is scheduled while the device computes, it is the time from one batch's tokens to
the next's, and for a batch that found the pipeline empty the time from its own scheduling. In both cases it is what a
running request waits for its next token, but for the moment between two steps of the sync scheduler, which is summed
apart (`between_seconds`): calls such as ours run in it.
"""

from __future__ import annotations

from typing import Any

from .journal import Journal

_COUNTS = ("tokens", "context", "budget_tokens", "tokens_tokens", "tokens_context", "context_context")
_TIMES = ("seconds", "tokens_seconds", "context_seconds", "seconds_seconds")


class Steps:
    """The sums since the collection began, made from time to time of what the journal has written down."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._ended = journal.ended_at
        self._n = 0
        self._between = 0.0
        self._sums: dict[str, float] = {**dict.fromkeys(_COUNTS, 0), **dict.fromkeys(_TIMES, 0.0)}

    def read(self) -> dict[str, Any]:
        """See Collector."""
        self.fold()
        journal = self._journal
        return {
            "n": self._n,
            **self._sums,
            "between_seconds": self._between,
            "empty": journal.empty,
            "samples": journal.samples,
            "running": journal.running,
            "waiting": journal.waiting,
        }

    def stop(self) -> None:
        """See Collector."""

    def fold(self) -> None:
        """Take the journal's lines and add them up."""
        lines, last = self._journal.take(), self._ended
        tokens = context = budget = tt = tc = cc = 0
        seconds = ts = cs = ss = 0.0
        for (began, t, c, b, goes_on), now in lines:  # one pass: ten built-in sums cost half as much again
            s = now - last
            if began > last:
                s = now - began
                if goes_on:
                    self._between += began - last
            last = now
            tokens += t
            context += c
            seconds += s
            budget += b
            tt += t * t
            tc += t * c
            cc += c * c
            ts += t * s
            cs += c * s
            ss += s * s
        self._n += len(lines)
        self._ended = last
        # Python's own numbers: a sum of NumPy's would overflow one day.
        for name, count in zip(_COUNTS, (tokens, context, budget, tt, tc, cc), strict=True):
            self._sums[name] += int(count)
        for name, time in zip(_TIMES, (seconds, ts, cs, ss), strict=True):
            self._sums[name] += time
