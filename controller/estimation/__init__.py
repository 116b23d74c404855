"""Snapshots to View: rates, windows, trends.

Belongs here: what comes from comparing readings over time, one file per kind. Never: reading a source, judging a value.
"""

from controller.estimation.estimator import BACKFILLED, Estimator
from controller.estimation.windows import STALE_TICKS

__all__ = ["BACKFILLED", "STALE_TICKS", "Estimator"]
