"""What was good once and is bad now.

Belongs here: following the checks from one run to the next. Never: telling anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.preflight.result import FAIL, NOT_APPLICABLE, PASS, WARN, Result


@dataclass(frozen=True, slots=True)
class Drift:
    """Names of checks. One in `worse` was in `good`, and is neither good again nor without an object."""

    good: frozenset[str] = frozenset()
    worse: frozenset[str] = frozenset()

    def follow(self, results: Iterable[Result]) -> Drift:
        """After another run. One that could not be looked at stays where it was."""
        good, worse = set(self.good), set(self.worse)
        for result in results:
            if result.state is PASS:
                good.add(result.name)
                worse.discard(result.name)
            elif result.state is NOT_APPLICABLE:
                good.discard(result.name)
                worse.discard(result.name)
            elif result.state in (WARN, FAIL) and result.name in good:
                good.discard(result.name)
                worse.add(result.name)
        return Drift(frozenset(good), frozenset(worse))

    def to_json(self) -> Mapping[str, Any]:
        """To outlive the daemon."""
        return {"good": sorted(self.good), "worse": sorted(self.worse)}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any] | None) -> Drift:
        """What `to_json` gave; nothing known of anything else."""
        try:
            return cls() if kept is None else cls(frozenset(kept["good"]), frozenset(kept["worse"]))
        except (KeyError, TypeError):
            return cls()
