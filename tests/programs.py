"""What a test needs of the machine: found, or the test skips and says how to get it."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from bench.setup import debian


def need(name: str) -> Path:
    """The path of a program out of the Debian packages that the tests use."""
    found = debian.program(name)
    return without(debian.how_to_get(name)) if found is None else found


def without(why: str) -> NoReturn:
    """The test skips and says why; where TESTS_NEED_ALL is set it fails."""
    if debian.required():
        pytest.fail(why)
    pytest.skip(why)
