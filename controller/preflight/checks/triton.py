"""Where Triton serves in front, it is new enough.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

import re

from controller.preflight.looking import output, program
from controller.preflight.result import FAIL, NOT_APPLICABLE, PASS, UNKNOWN, Check, DoesNotApply, Found, NotKnown
from controller.preflight.surroundings import Surroundings

LEAST = (2, 3, 0)
CURE = "docker pull nvcr.io/nvidia/tritonserver:24.08-vllm-python-py3"


def _look(around: Surroundings) -> Found:
    path = program(around, "tritonserver")
    if path is None:
        raise DoesNotApply("tritonserver is not installed: vLLM serves by itself")
    said = output(path, "--version")
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", said)
    if found is None:
        raise NotKnown(f"{path} --version tells no version: {said.strip()[:80]!r}")
    version = found[0]
    if tuple(map(int, found.groups())) < LEAST:
        return Found(FAIL, f"tritonserver {version} is older than 2.3.0", CURE)
    return Found(PASS, f"tritonserver {version}; 2.3.0 is the least")


CHECK = Check(
    "triton",
    "tritonserver 2.3.0 or newer, where it is installed",
    "seed 1, checklist before deployment 1",
    frozenset({PASS, FAIL, NOT_APPLICABLE, UNKNOWN}),
    _look,
)
