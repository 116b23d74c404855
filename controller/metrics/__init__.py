"""The daemon's own series for Prometheus.

Belongs here: names, meanings, what was last observed. Never: HTTP, deciding.
"""
