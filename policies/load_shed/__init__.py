"""load_shed: a bounded queue while the time to first token is lost and nothing else is left to give.

A queue that nobody can shorten only makes everybody late: the engine is at its limit, so those who would wait too long
are turned away at once (503 with Retry-After). Belongs here: when to bound the queue, how short, when to let go. Never:
the cap, the token budget.
"""

from policies.load_shed.policy import LoadShed
from policies.load_shed.settings import LoadShedSettings
from policies.load_shed.state import LoadShedState

__all__ = ["LoadShed", "LoadShedSettings", "LoadShedState"]
