"""Policies of others, found among the installed distributions.

Belongs here: loading them by entry point, and which of them cannot be used. Never: what a policy is (policies/base.py),
running one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from policies import registry

logger = logging.getLogger(__name__)

GROUP = "vllm_governor.policies"
"""`NAME = "module:Class"` in this group of a distribution's entry points is the policy NAME."""


@dataclass(frozen=True, slots=True)
class Extensions:
    """Classes by name, and for those that are left out why."""

    policies: dict[str, type[Any]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> type[registry.PoliciesSettings]:
        """The policies' settings with a table for each."""
        return registry.with_third_party(self.policies, self.broken)


def find() -> Extensions:
    """Load what is installed. Raises nothing that a distribution can cause; each fault is logged with its name."""
    found = Extensions()
    for point in sorted(entry_points(group=GROUP), key=lambda one: (one.name, one.value)):
        kind, why = _load(point)
        if why is None and point.name in found.policies:
            why = "another distribution has a policy of that name"
        if why is None:
            found.policies[point.name] = kind
            continue
        if point.name not in found.policies:
            found.broken[point.name] = why
        whose = f" of {point.dist.name}" if point.dist is not None else ""
        logger.error("policy %s%s is left out: cannot use %s: %s", point.name, whose, point.value, why)
    return found


def _load(point: EntryPoint) -> tuple[Any, str | None]:
    try:
        kind = point.load()
    except Exception as error:  # somebody else's code
        return None, f"{type(error).__name__}: {error}"
    return kind, registry.objection(point.name, kind)
