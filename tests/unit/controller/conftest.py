"""The rig of tests/loop_rig.py, one for each test that asks for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.loop_rig import Rig, rigged


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rigged(tmp_path / "history.db") as rig:
        yield rig
