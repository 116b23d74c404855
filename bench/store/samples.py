"""Decisions like real ones: one of each kind that governed engines wrote, dealt as often as they wrote it.

Belongs here: the stored samples and how they are varied. Never: when a decision is taken (year.py).

data/decisions.jsonl has one line for each policy, knob, reason, status and verdict that eight real runs of `make run`
and `python -m bench soak` left, the one of middle size, with how often it came. Their engine had no GPU and its
changes came too fast to be judged, so numbers stand in for the nulls of the GPU, and data/outcomes.jsonl has what
`policies.judgement` says of two stretches that can be compared.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

from domain.decision import Decision, Mode, Reason, Status
from domain.outcome import Outcome, Verdict

DATA = Path(__file__).parent / "data"
JUDGED_RATIO = 0.6
"""Of the changes with a verdict; the rest keeps the one that the sample has."""
GUARDED_RATIO = 0.1
GUARD = "withheld: the engine was met 3.0 s ago, no change before 5 s"


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


class Samples:
    """A deck of decisions. The same `chance` deals the same ones."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._decisions = _lines("decisions.jsonl")
        self._times = [one["times"] for one in self._decisions]
        self._outcomes = _lines("outcomes.jsonl")

    def deal(self, at: datetime) -> Decision:
        """One decision of that moment."""
        one = self._chance.choices(self._decisions, self._times)[0]
        guards = one["guards"] or ([GUARD] if self._chance.random() < GUARDED_RATIO else [])
        return Decision(
            at=at,
            mode=Mode.AUTO,
            policy=one["policy"],
            knob=one["knob"],
            old=one["old"],
            wanted=one["wanted"],
            requested=one["requested"],
            observed=one["observed"],
            status=Status(one["status"]),
            reason=Reason(one["reason"]),
            sentence=one["sentence"],
            evidence={name: self._varied(value) for name, value in one["evidence"].items()},
            guards=tuple(guards),
            error=one["error"],
            diagnoses=tuple(one["diagnoses"]),
            outcome=self._outcome(one["outcome"]),
            uid=f"{self._chance.getrandbits(128):032x}",
        )

    def _outcome(self, stored: dict[str, Any] | None) -> Outcome | None:
        if stored is None:
            return None
        if stored["verdict"] == Verdict.UNCLEAR and self._chance.random() < JUDGED_RATIO:
            stored = self._chance.choice(self._outcomes)
        numbers = {name: self._varied(value) for name, value in stored["numbers"].items()}
        return Outcome(Verdict(stored["verdict"]), stored["sentence"], numbers, stored["undo"])

    def _varied(self, value: float | str | None) -> float | str | None:
        """Another number with as many digits; a whole one and 0 stay."""
        if isinstance(value, str):
            return value
        if value is None:
            return self._chance.random()
        if isinstance(value, int) or value.is_integer():
            return value
        return value * self._chance.uniform(0.8, 1.25)
