"""The guards: what stands between a proposal and the engine, whatever the policy.

Belongs here: choosing among proposals, bounds, freshness, warm-up, cooldown, dwell, reversals. Never: a rule of one
policy, a call to the engine.
"""

from policies.guards.override import Override
from policies.guards.ruling import Rules, Ruling, rule
from policies.guards.settings import GuardSettings
from policies.guards.state import GuardState, withdraw

__all__ = ["GuardSettings", "GuardState", "Override", "Rules", "Ruling", "rule", "withdraw"]
