"""Hypothesis for all of these. How long an example takes says more of the machine than of the code; the examples are
the same in every run, so that a change is judged by what it changed. `HYPOTHESIS_PROFILE=search` looks for new ones.
"""

import os

from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
