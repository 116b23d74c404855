"""`python -m bench tables PAGE JSON...`: writes the tables of a page of docs/ from the JSON of the benches.

Belongs here: finding a table's place on a page and filling it. Never: a run, a figure that is in no JSON.
"""

from bench.tables.command import main

__all__ = ["main"]
