"""From what was timed to the figures. Values in, values out; measuring never belongs here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from bench.store.queries import Timed
from bench.store.writing import HandedOver, Most

MB = 1e6


def of_file(size_bytes: int, by_table: Mapping[str, int] | None) -> dict[str, object]:
    """MB are 10^6 bytes; indexes count for their table. None: this SQLite cannot say."""
    shares = None if by_table is None else {name: round(size / MB, 1) for name, size in by_table.items()}
    return {"file_mb": round(size_bytes / MB, 1), "file_mb_by_table": shares}


def of_queries(timed: Sequence[Timed]) -> dict[str, object]:
    """The slowest of all repetitions of all that count, and each of them."""
    return {
        "query_ms_max": round(max(max(one.ms) for one in timed if one.counts), 1),
        "query_ms_median_max": round(max(median(one.ms) for one in timed if one.counts), 1),
        "queries": {
            one.line: {
                "median_ms": round(median(one.ms), 1),
                "max_ms": round(max(one.ms), 1),
                "cpu_ms": round(median(one.cpu_ms), 1),
                "answer_bytes": one.answer_bytes,
                "counts": one.counts,
            }
            for one in timed
        },
    }


def of_most(most: Most, normal_per_s: float = 1.0) -> dict[str, object]:
    """`writer_x`: ticks written a second over those that a daemon has."""
    return {
        "writer_x": round(most.ticks / most.seconds / normal_per_s, 1),
        "writer_s": round(most.seconds, 1),
        "writer_dropped": most.dropped,
    }


def of_hand_over(found: HandedOver) -> dict[str, object]:
    """Milliseconds of the tick's thread for handing over, tick by tick; what a change waits for the disk is told apart.
    And how the writer fared meanwhile.
    """
    waits, nobody = sorted(found.wall_ms), sorted(found.nobody_ms)
    return {
        "tick_wait_ms_p50": _at(waits, 0.5),
        "tick_wait_ms_p99": _at(waits, 0.99),
        "tick_wait_ms_max": _at(waits, 1.0),
        "tick_cpu_ms_max": _at(sorted(found.cpu_ms), 1.0),
        "ticks_over_1_ms": sum(wait > 1.0 for wait in waits),
        "ticks": len(waits),
        "nobody_ms_p99": _at(nobody, 0.99),
        "nobody_ms_max": _at(nobody, 1.0),
        "offered_x": round(found.ticks_per_s, 1),
        "pending_max": found.pending,
        "oldest_wait_s_max": round(found.oldest_wait_s, 2),
        "dropped": found.dropped,
        "wal_mb_max": round(found.wal_bytes / MB, 1),
        "intent_wait_ms_p50": _at(sorted(found.intent_ms), 0.5),
        "intent_wait_ms_max": _at(sorted(found.intent_ms), 1.0),
        "late_intents": found.late_intents,
    }


def _at(ordered: Sequence[float], part: float) -> float | None:
    """The smallest that at least that part is at or under; None of nothing."""
    if not ordered:
        return None
    place = max(-(-len(ordered) * round(part * 1000) // 1000) - 1, 0)
    return round(ordered[place], 4)
