"""The scenes of the checks, and how each has to come out.

Belongs here: all of them as one list. Never: a law (tests/unit/controller/preflight).
"""

from tests.preflight_cases import engine, files, gpus, load, machine

CASES = [*gpus.CASES, *machine.CASES, *files.CASES, *engine.CASES, *load.CASES]
