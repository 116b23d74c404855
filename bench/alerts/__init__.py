"""`python -m bench alerts`: thousands of alerts at once, and what they do to the ticks and the memory.

Belongs here: the burst, the stopwatch. Never: what an alert is, the daemon's own order.
"""

from bench.alerts.command import main

__all__ = ["main"]
