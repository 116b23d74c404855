"""The card serves the requests a second that the seeds' table expects of it.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight.looking import profile_of, reading
from controller.preflight.result import NOT_APPLICABLE, PASS, UNKNOWN, WARN, Check, Found, NotKnown
from controller.preflight.surroundings import Surroundings
from policies.profiles import A100_80G, H100_PCIE_80G, RTX_4090

EXPECTED = {A100_80G.name: (60, 80), RTX_4090.name: (30, 45), H100_PCIE_80G.name: (110, 150)}
"""Requests a second by profile."""


def _look(around: Surroundings) -> Found:
    profile = profile_of(around)
    low, high = EXPECTED[profile.name]
    rate = around.engine.requests_per_s
    waiting = reading(around).waiting
    if rate is None or waiting is None:
        raise NotKnown("the request rate is not measured yet")
    told = f"{rate:.3g} requests/s over {around.engine.rate_over}, {profile.name}: {low} to {high} expected"
    if rate < low and waiting > 0:
        return Found(
            WARN,
            f"{told}, and {waiting:g} wait: this load is dearer, or something is in the way",
            "vllm-governor status",
        )
    if rate < low:
        return Found(PASS, f"{told}; nobody waits, so no more is asked of it")
    return Found(PASS, told)


CHECK = Check(
    "expected_qps",
    "with requests waiting, the card serves its expected requests a second: A100-80G 60 to 80, RTX 4090 30 to 45, "
    "H100-PCIE-80G 110 to 150",
    "seed 1, hardware table",
    frozenset({PASS, WARN, NOT_APPLICABLE, UNKNOWN}),
    _look,
)
