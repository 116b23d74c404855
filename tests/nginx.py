"""A real nginx for the tests, with the files that are shipped, and a relay that counts what it opens to vLLM.

Belongs here: fitting and starting. Never: what a test asks of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.connections import certificate, nginx_files
from bench.connections.certificate import Certificate
from bench.connections.nginx import Nginx
from bench.connections.nginx_files import Fit
from bench.ports import free_port
from tests.programs import need


def shipped_nginx(folder: Path, upstream: str, **changed: str) -> tuple[Nginx, Certificate]:
    """An nginx with the shipped files before `upstream` (host:port), not started yet. `changed`: a directive of the
    server block and its other value, for a test that will not wait 180 s.
    """
    issued = certificate.make(folder)
    fit = Fit(folder / "nginx", free_port(), issued, upstream)
    main, site = nginx_files.shipped(fit)
    before, server = site.split("\nserver {")
    for name, value in changed.items():
        lines = server.splitlines()
        found = [number for number, line in enumerate(lines) if line.split()[:1] == [name]]
        assert len(found) == 1, f"{name} is there {len(found)} times"
        lines[found[0]] = f"    {name} {value};"
        server = "\n".join(lines)
    written = nginx_files.write(fit, (main, f"{before}\nserver {{{server}\n"))
    return Nginx(need("nginx"), written, fit.port), issued


class CountingRelay:
    """`async with CountingRelay(port) as relay:` passes bytes on to a port of this machine; `opened` counts."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._passing: set[asyncio.Task[None]] = set()
        self.opened = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._meet, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", self._port)
        for task in (_pass(reader, onward_writer), _pass(onward_reader, writer)):
            self._passing.add(asyncio.create_task(task))


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
    finally:
        writer.close()
