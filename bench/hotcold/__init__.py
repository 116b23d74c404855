"""`python -m bench hotcold`: what the two-tier prefix cache gains and costs against stock LRU and Belady's optimum.

Belongs here: the loads, the replay, the optimum, the live runs, a purge's cost and the picture. Never: the tiers
themselves, which are the plugin's. It runs where vLLM is installed.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench import in_vllm


def main(arguments: Sequence[str]) -> int:
    """Runs the bench where vLLM can be imported; exit code 0 when it ran, whatever came out."""
    return in_vllm.run("bench.hotcold", arguments, _here)


def _here(arguments: Sequence[str]) -> int:
    from bench.hotcold import command  # imports vLLM

    return command.main(arguments)
