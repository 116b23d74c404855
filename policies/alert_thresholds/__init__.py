"""alert_thresholds: the seeds' table of alerts, and the state machine that runs it over views.

Belongs here: rules as data (table, selfchecks, making), what an operator may change of them (settings), what is
compared (measure, expression), the state machine (evaluate), its words (sentences), its state between two processes
(packing). Never: telling anybody.
"""

from policies.alert_thresholds.evaluate import AlertsState, evaluate
from policies.alert_thresholds.measure import NAMES, OBJECTIVE_EXCESS, worst_objective
from policies.alert_thresholds.packing import pack, unpack
from policies.alert_thresholds.selfchecks import CHECKS
from policies.alert_thresholds.settings import AlertRuleSettings, AlertThresholdsSettings
from policies.alert_thresholds.table import RULES

__all__ = [
    "CHECKS",
    "NAMES",
    "OBJECTIVE_EXCESS",
    "RULES",
    "AlertRuleSettings",
    "AlertThresholdsSettings",
    "AlertsState",
    "evaluate",
    "pack",
    "unpack",
    "worst_objective",
]
