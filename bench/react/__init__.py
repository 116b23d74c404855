"""`python -m bench react`: how long the daemon takes from the first snapshot that shows a breach to the change.

Belongs here: provoking breaches, what is timed, the arithmetic. Never: which change is right.
"""

from bench.react.command import main

__all__ = ["main"]
