"""A process of the bench that measures apart from this one: started, awaited, read.

It prints one JSON object at its end and ends when its standard input does, so that none outlives this process. Belongs
here: the process. Never: what it measures.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any, Self

from bench.setup import places

END_S = 15.0


class ChildError(Exception):
    """A measuring process failed; the text has its last line."""


class Child:
    """`python -m MODULE ARGUMENTS` while the block lasts."""

    def __init__(self, module: str, arguments: Sequence[object]) -> None:
        self._module = module
        self._command = [sys.executable, "-m", module, *map(str, arguments)]

    async def __aenter__(self) -> Self:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=places.ROOT
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def line(self, limit_s: float) -> str:
        """Its next line. Raises ChildError when none comes."""
        assert self._process.stdout is not None
        try:
            said = await asyncio.wait_for(self._process.stdout.readline(), limit_s)
        except TimeoutError as error:
            raise ChildError(f"{self._module} said nothing for {limit_s:.0f} s") from error
        return said.decode().strip()

    async def result(self, limit_s: float, *, stop: bool = False) -> dict[str, Any]:
        """What it found, once it has ended by itself or, with `stop`, because it is told to. Raises ChildError."""
        if stop and self._process.stdin is not None:
            self._process.stdin.close()
        try:
            out, errors = await asyncio.wait_for(self._process.communicate(), limit_s + END_S)
        except TimeoutError as error:
            raise ChildError(f"{self._module} did not end within {limit_s + END_S:.0f} s") from error
        if self._process.returncode != 0:
            lines = errors.decode(errors="replace").strip().splitlines()
            raise ChildError(f"{self._module} ended with {self._process.returncode}: {lines[-1] if lines else ''}")
        found: dict[str, Any] = json.loads(out.decode().splitlines()[-1])
        return found
