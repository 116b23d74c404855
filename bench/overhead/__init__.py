"""`python -m bench overhead`: what the plugin costs, in CPU time per engine step and in requests/s of a real server.

Belongs here: the measurements, their pairing and their intervals. Never: the plugin, or a goal that fails a run.
"""

from bench.overhead.command import main

__all__ = ["main"]
