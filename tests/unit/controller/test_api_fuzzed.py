"""schemathesis against the served OpenAPI document: no 5xx, no undocumented answer, what is wrong is refused."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests.api_rig import ADMIN, serving

FOLDER = Path(__file__).parents[2] / "data" / "schemathesis"
LIMIT_S = 900.0


async def fuzzed(folder: Path, *options: str) -> tuple[int, int, str]:
    """The exit status, how many cases were tried, and what was said."""
    async with serving(folder, read_token=True, requests_per_s=100_000) as api:
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(FOLDER / "schemathesis.toml"), "run"]
        command += [f"{api.url}/api/v1/openapi.json", "-H", f"Authorization: Bearer {ADMIN}", "--checks", "all"]
        command += [
            "--request-timeout",
            "60",
            "--max-response-time",
            "60",
            "--no-shrink",
            "--generation-deterministic",
            *options,
        ]
        environment = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(FOLDER), "COLUMNS": "120"}
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(LIMIT_S):
                out, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        said = out.decode(errors="replace")
        found = re.search(r"(\d+) generated", said)
        return process.returncode or 0, int(found[1]) if found else 0, said


async def test_a_few_requests_of_each_kind_are_answered_as_documented(tmp_path: Path) -> None:
    status, tried, said = await fuzzed(tmp_path, "-n", "2", "--phases", "fuzzing", "--exclude-path", "/api/v1/replay")
    assert status == 0, said
    assert tried > 80


@pytest.mark.long
@pytest.mark.timeout(LIMIT_S + 60)
async def test_two_thousand_requests_are_answered_as_documented(tmp_path: Path) -> None:
    status, tried, said = await fuzzed(tmp_path, "-n", "60")
    assert status == 0, said
    assert tried >= 2000
