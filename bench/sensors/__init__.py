"""`python -m bench sensors`: how far the latency estimates are from the truth, and what one tick's sensing costs.

Belongs here: loads of known latencies, playing them to the real sensor and estimator, the CPU time of a tick. Never:
the sensors and the estimator themselves, which are the daemon's.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Runs the bench; exit code 0 when it ran, whatever came out."""
    from bench.sensors.command import main as run  # the child process that plays vLLM needs none of it

    return run(arguments)
