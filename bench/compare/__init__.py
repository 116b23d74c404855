"""`python -m bench compare`: the governor beside what operators have, in one run, on vLLM's own scheduler.

Belongs here: workloads, scenarios, contenders, the score of each, the report. Never: a policy, the emulated device, the
loop on virtual time (bench/virtual).

Two interpreters: the runs happen where vLLM is installed (`measure`), arguments, table and report where the daemon is
(`command`); between the two lies one JSON file.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Runs the bench; exit code 0 when it ran, whatever came out."""
    from bench.compare import command  # draws, which vLLM's environment cannot

    return command.main(arguments)
