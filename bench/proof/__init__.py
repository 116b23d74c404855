"""`python -m bench proof`: every comparison of docs/compare.md again, and its tables written from what came out.

Belongs here: which comparisons, in which order. Never: a run (bench/compare), what a table looks like (bench/tables).
"""

from bench.proof.command import main

__all__ = ["main"]
