"""Alerts in the daemon: self-checks, rules, incidents, groups, the outbox and the senders, tick after tick.

Belongs here: their order, and what outlives the daemon. Never: a rule (policies/alert_thresholds), whom to tell when
and how (alerts/), SQL, HTTP routes.
"""

from controller.alerting.alerting import Alerting
from controller.alerting.ticked import Ticked

__all__ = ["Alerting", "Ticked"]
