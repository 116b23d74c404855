"""Alerts: what to tell to whom, when, and in which words.

Belongs here: incidents, groups, receivers, delivery. Never: rules (policies/alert_thresholds), SQL, the daemon's loop.
"""
