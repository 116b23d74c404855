"""A real nginx as a child process: checked, started, asked for its memory, ended.

Belongs here: the process and what it logged. Never: its settings (nginx_files.py).
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from bench import process_group

START_LIMIT_S, POLL_S = 60.0, 0.05


class NginxError(Exception):
    """nginx cannot be started or has ended; the text is one sentence that names the reason."""


class Nginx:
    """`with Nginx(program, main, port):` serves on loopback until the block ends. `main` lies in its folder."""

    def __init__(self, program: Path, main: Path, port: int) -> None:
        self.folder = main.parent
        self.port = port
        self._main = main
        # Started by root, its workers would be nobody, who may not enter a private folder; daemons leave the group.
        globally = f"daemon off; error_log {self.folder}/error.log warn;"
        globally += " user root;" if os.geteuid() == 0 else ""
        self._command = [
            str(program), "-p", str(self.folder), "-c", str(main), "-e", str(self.folder / "error.log"), "-g", globally,
        ]  # fmt: skip

    def check(self) -> str:
        """What `nginx -t` says. Raises NginxError where it finds a fault."""
        done = subprocess.run([*self._command, "-t"], capture_output=True, text=True, check=False, timeout=30)
        if done.returncode != 0:
            raise NginxError(f"cannot use {self._main.name}: {done.stderr.strip()}")
        return done.stderr.strip()

    def __enter__(self) -> Self:
        log = self.folder / "output.log"
        self._process = process_group.start(self._command, environment=os.environ, log=log, folder=self.folder)
        until_s = time.monotonic() + START_LIMIT_S
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > until_s:
                self.__exit__(None, None, None)
                raise NginxError(f"cannot start nginx: {self.said() or log.read_text().strip() or 'it says nothing'}")
            time.sleep(POLL_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process_group.end(self._process, patience_s=2.0)

    def memory_mb(self) -> float:
        """Of the master and its workers, 10^6 bytes; what they share counts once (PSS). The kernel's is not in it."""
        kib = 0
        for pid in process_group.members(self._process.pid):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                name, _, value = line.partition(":")
                kib += int(value.split()[0]) if name == "Pss" else 0
        return kib * 1024 / 1e6

    def requests(self) -> list[tuple[int, int, bool, str]]:
        """Each as it was logged: number of the client's connection, status, TLS session resumed or not, path."""
        lines = (self.folder / "access.log").read_text().splitlines()
        rows = (line.split(" ", 3) for line in lines)
        return [(int(number), int(status), reused == "r", path) for number, status, reused, path in rows]

    def said(self) -> str:
        """The last of its errors, "" without one."""
        log = self.folder / "error.log"
        return (log.read_text().splitlines() or [""])[-1] if log.exists() else ""

    def _listens(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
