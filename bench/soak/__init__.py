"""`python -m bench soak`: a real vLLM under changing load, the real daemon steering it, and one fault after another.

Belongs here: the faults and their order, the proxy that makes them, what counts as failed and as back. Never: how the
daemon mends anything.

What it shows: no request fails that a fault did not have to fail, every knob is soon back inside policy, and no knob
swings. The load goes to vLLM directly; what the daemon reads and sends goes through the proxy.
"""

from bench.soak.command import main

__all__ = ["main"]
