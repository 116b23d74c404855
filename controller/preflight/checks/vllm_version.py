"""This vLLM is one that the plugin was tried with.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

import re

from controller.preflight.result import PASS, UNKNOWN, WARN, Check, Found, NotKnown
from controller.preflight.surroundings import Surroundings

TRIED = ("0.27.1", "0.29.0", "0.30.0", "0.31.0", "0.32.0")
"""docs/compatibility.md: the whole suite of the plugin ran on each."""


def _look(around: Surroundings) -> Found:
    runtime = around.engine.runtime
    version = runtime.vllm_version if runtime is not None else around.engine.version
    found = re.match(r"\d+\.\d+\.\d+", version or "")
    if version is None:
        raise NotKnown("vLLM does not answer, so its version is not known")
    if found is None:
        raise NotKnown(f"vLLM calls itself {version!r}, which is no release")
    if found[0] not in TRIED:
        tried = ", ".join(TRIED)
        cure = f"pip install vllm=={TRIED[-1]}  # in vLLM's environment"
        return Found(WARN, f"vLLM {version} is none of those tried ({tried}): knobs are probed one by one", cure)
    return Found(PASS, f"vLLM {version}")


CHECK = Check(
    "vllm_version",
    "the version of vLLM is one that the plugin was tried with",
    "seed 1, checklist before deployment 1: vLLM stands in for Triton",
    frozenset({PASS, WARN, UNKNOWN}),
    _look,
)
