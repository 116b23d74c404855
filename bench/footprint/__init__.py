"""`python -m bench footprint`: CPU and memory of the real daemon beside a real vLLM under light load.

Belongs here: the run, what /proc says of the daemon's process, the arithmetic. Never: what vLLM or the load cost.
"""

from bench.footprint.command import main

__all__ = ["main"]
