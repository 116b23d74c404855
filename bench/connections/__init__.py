"""`python -m bench connections`: what short, long and tuned connections through nginx cost, how many hold.

Belongs here: the run, a real nginx, the client that times and holds, the arithmetic. Never: what vLLM answers.
"""

from bench.connections.command import main

__all__ = ["main"]
