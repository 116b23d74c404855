"""The tool of the seeds' load tests is there.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

import importlib.util

from controller.preflight.looking import program
from controller.preflight.result import PASS, WARN, Check, Found
from controller.preflight.surroundings import Surroundings


def _look(around: Surroundings) -> Found:
    path = program(around, "locust")
    if path is not None:
        return Found(PASS, f"locust is {path}")
    if around.roots.programs is None and importlib.util.find_spec("locust") is not None:
        return Found(PASS, "locust is in the daemon's own environment")
    return Found(WARN, "locust is not installed here; any machine that reaches vLLM will do", "pipx install locust")


CHECK = Check(
    "load_tool",
    "locust is installed, for the load tests before a change goes live",
    "seed 1, checklist before deployment 3",
    frozenset({PASS, WARN}),
    _look,
)
