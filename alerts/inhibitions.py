"""Which alert makes which others needless, as shipped: a consequence is not told beside its cause.

Belongs here: that table. Never: how it is applied.

An operator's `[[alerts.inhibit]]` tables replace it; `inhibit = []` switches it off.
"""

from __future__ import annotations

from typing import NamedTuple

NODE = ("instance",)
SUBJECT = ("instance", "subject")
SEEN_THROUGH_VLLM = (
    "rejected_requests|rejected_requests_slo|cache_hit_rate|batch_utilization|latency_slo|latency_imbalance|qps_swing"
    "|padding_high|padding_low|kv_cache_full|kv_reallocations|memory_fragmentation|memory_fragmentation_growth"
)
"""Rules over what vLLM says of itself: without it they keep the state they had."""
OF_A_STALL = "rejected_requests|rejected_requests_slo|batch_utilization|latency_slo|latency_imbalance|qps_swing"


class Shipped(NamedTuple):
    """One row: while `source` fires, `target` is not told where the labels of `equal` agree."""

    source: str
    target: str
    equal: tuple[str, ...] = NODE


SHIPPED: tuple[Shipped, ...] = (
    Shipped('alertname="engine_down"', f'alertname=~"{SEEN_THROUGH_VLLM}|no_progress|blind|stale_gauges"'),
    Shipped('alertname="blind"', f'alertname=~"{SEEN_THROUGH_VLLM}|stale_gauges"'),
    # Neither of the two silences no_progress: it is the worse one, and silences them.
    Shipped('alertname="stale_gauges"', f'alertname=~"{SEEN_THROUGH_VLLM}"'),
    Shipped('alertname="no_progress"', f'alertname=~"{OF_A_STALL}"'),
    Shipped('alertname="rejected_requests"', 'alertname="rejected_requests_slo"'),
    # A critical alert silences the lesser ones about the same thing. Without the label none is about the same thing
    # as another: labels that are missing on both sides would count as equal.
    Shipped('severity="critical",subject!=""', 'severity=~"warning|info",subject!=""', SUBJECT),
)
