"""`python -m bench store`: the size of a year's history, how fast it answers, what its writer bears.

Belongs here: the year that is made, the stopwatch, the arithmetic. Never: what a query asks, how a row is written.
"""

from bench.store.command import main

__all__ = ["main"]
