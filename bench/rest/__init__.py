"""`python -m bench rest`: how fast the daemon answers while its loop turns, and what answering does to the loop.

Belongs here: the run, the two processes that ask and listen, the arithmetic. Never: what an answer holds.
"""

from bench.rest.command import main

__all__ = ["main"]
