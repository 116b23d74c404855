"""Long windows and the daemon's own past, asked of a Prometheus-compatible server.

Belongs here: the queries, the calls, what each kind of absence means. Never: what rests on the answers.
"""

from controller.sensors.prometheus.sensor import PrometheusSensor

__all__ = ["PrometheusSensor"]
