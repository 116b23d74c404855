"""emergency_purge: what is done under real pressure, whether it helped, and the way back in stages.

Belongs here: one policy in parts: pressure (is there one), measures (what is asked of the engine), recovery (the way
back), policy (the order). Never: a cut for the sake of latency (batch_resize, token_budget).
"""

from policies.emergency_purge.policy import EmergencyPurge, interrupted
from policies.emergency_purge.settings import EmergencyPurgeSettings
from policies.emergency_purge.state import EmergencyState, acting, ask, unrelieved

__all__ = ["EmergencyPurge", "EmergencyPurgeSettings", "EmergencyState", "acting", "ask", "interrupted", "unrelieved"]
