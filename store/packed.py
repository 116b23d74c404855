"""JSON objects of many names and numbers, small: deflated against a text that holds the names.

A reading has some sixty names and as many numbers; packed they take less than a third of their plain JSON. Belongs
here: the column type. Never: what is in the objects.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from sqlalchemy import Dialect, LargeBinary, TypeDecorator

LEVEL = 6
RAW = -15
"""zlib's word for deflate without a head and a checksum: the row has neither use for."""
NAMES: Mapping[int, str] = {
    1: (
        "running waiting held demand deferred oldest_waiting_s kv_cache_usage_ratio batch_size_current requests_per_s "
        "prompt_tokens_per_s generation_tokens_per_s preemptions_per_s failed_ratio rejected_ratio "
        "response_bytes_per_s mean_prompt_tokens mean_output_tokens queue_share_ratio goodput_ratio "
        "requests_per_s_swing_ratio latency_slope_ratio latency_imbalance cache_hit_ratio hot_requests_ratio "
        "hot_blocks_ratio evictions_per_s "
        "reallocations_per_s kv_fragmentation_ratio allocator_fragmentation_ratio memory_fragmentation_ratio "
        "batch_utilization_ratio padding_ratio regroupings_per_s stalled_s gpu_utilization_ratio sm_activity_ratio "
        "gpu_memory_usage_ratio effective_memory_ratio bar1_usage_ratio bar1_swing_ratio gpu_temperature_c gpu_power_w "
        "gpu_energy_j joules_per_token requests_per_s_mean_1h requests_per_s_peak_1h e2e_p99_1h_s "
        "requests_per_s_day_ratio e2e_p99_day_ratio knob:max_num_seqs knob:max_num_batched_tokens "
        "knob:long_prefill_token_threshold knob:admission_delay_ms knob:length_grouping knob:hot_cache_ratio "
        "knob:hot_cache_min_size_mb knob:hot_ttl_s knob:cold_ttl_s knob:cold_cache_reclaim_threshold "
        "knob:max_num_queued_reqs knob:connection_close knob:watermark_blocks knob:purge knob:preempt"
    ),
}
"""The first byte of a value to the names it was packed with. One that was released never changes, or what was packed
with it cannot be read; a signal that it lacks takes some bytes more.
"""
NEWEST = max(NAMES)


@cache
def _dictionary(version: int) -> bytes:
    """In the form of the objects, because zlib looks for the longest match."""
    return _text(dict.fromkeys(NAMES[version].split(), 0.0))


def _text(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def pack(value: Mapping[str, Any]) -> bytes:
    """An object as bytes. Raises ValueError at a number that is not finite."""
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, RAW, zdict=_dictionary(NEWEST))
    return bytes([NEWEST]) + packer.compress(_text(value)) + packer.flush()


def unpack(packed: bytes) -> dict[str, Any]:
    """The object. Raises ValueError at bytes that are none, or that a newer version packed."""
    if not packed or packed[0] not in NAMES:
        raise ValueError(f"cannot unpack a reading: it was packed by a newer version ({packed[:1].hex() or 'empty'})")
    try:
        text = zlib.decompressobj(RAW, zdict=_dictionary(packed[0])).decompress(packed[1:])
    except zlib.error as error:
        raise ValueError(f"cannot unpack a reading: {error}") from error
    found: dict[str, Any] = json.loads(text)
    return found


class Packed(TypeDecorator[dict[str, Any]]):
    """A dict in, a dict out; None stays."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: dict[str, Any] | None, dialect: Dialect) -> bytes | None:
        return None if value is None else pack(value)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> dict[str, Any] | None:
        return None if value is None else unpack(value)
