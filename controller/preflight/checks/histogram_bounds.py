"""vLLM counts the requests above an objective instead of having them estimated.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.objectives import buckets
from controller.preflight.looking import reading
from controller.preflight.result import NOT_APPLICABLE, PASS, UNKNOWN, WARN, Check, DoesNotApply, Found, NotKnown
from controller.preflight.surroundings import Surroundings


def _look(around: Surroundings) -> Found:
    objectives = around.settings.slo.every()
    if not objectives:
        raise DoesNotApply("no objective is set ([slo])")
    histograms = reading(around).latencies
    unseen = [slo.latency for slo in objectives if slo.latency not in histograms]
    if unseen:
        raise NotKnown(f"vLLM's metrics have no histogram of {', '.join(dict.fromkeys(unseen))}")
    off = buckets.off_bounds(objectives, histograms)
    if not off:
        return Found(PASS, f"a bucket bound lies on each of {len(objectives)} objectives")
    runtime = around.engine.runtime
    version = runtime.vllm_version if runtime is not None else around.engine.version or ""
    concerned = {slo.latency for slo in off}
    flag = buckets.recommended([slo for slo in objectives if slo.latency in concerned], histograms)
    cure = f"vllm serve MODEL --custom-histogram-buckets '{flag}'" if buckets.takes_flag(version) else None
    return Found(WARN, buckets.warning(off, objectives, histograms, version), cure)


CHECK = Check(
    "histogram_bounds",
    "a bucket bound of vLLM's histograms lies on every objective",
    "seed 1, P99 against SLA_THRESHOLD",
    frozenset({PASS, WARN, NOT_APPLICABLE, UNKNOWN}),
    _look,
)
