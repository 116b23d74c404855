"""The daemon as a child process: its settings file, start, reload, stop.

Belongs here: the process. Never: what it decides.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import process_group
from bench.setup import places

STOP_S = 12.0


class DaemonError(Exception):
    """The daemon did not start or has died; the text names its log."""


class Daemon:
    """`vllm-governor run` with a settings file that `configure` writes and the daemon reads again at SIGHUP.

    It serves nothing unless `base` names a port: several may run side by side.
    """

    def __init__(self, folder: Path, base: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.config = folder / "governor.toml"
        self.log = folder / "governor.log"
        self._base = {"api": {"port": 0}, **base}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id; only while it runs."""
        if self._process is None:
            raise DaemonError("the governor is not running")
        return self._process.pid

    def start(self, **settings: Any) -> None:
        """Write the settings and start. Its own session: a Ctrl-C in the terminal reaches it through `stop` alone."""
        self._write(settings)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GOVERNOR_")}
        command = [sys.executable, "-m", "controller", "run", "--config", str(self.config)]
        self._process = process_group.start(command, environment=environment, log=self.log, folder=places.ROOT)

    def configure(self, **settings: Any) -> None:
        """Write new settings and have the running daemon read them."""
        self.check()
        self._write(settings)
        os.kill(self.pid, signal.SIGHUP)

    def check(self) -> None:
        """Raises DaemonError with the last line of its log when the daemon has died."""
        if self._process is not None and self._process.poll() is not None:
            lines = self.log.read_text(errors="replace").strip().splitlines()
            raise DaemonError(f"the governor ended by itself ({lines[-1] if lines else 'no output'}); see {self.log}")

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL; returns when it is gone. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            await asyncio.to_thread(process_group.end, process, patience_s=STOP_S)

    def _write(self, settings: Mapping[str, Any]) -> None:
        self.config.write_text(to_toml({**self._base, **settings}), encoding="utf-8")


def to_toml(values: Mapping[str, Any], prefix: str = "") -> str:
    """TOML of nested tables of strings, numbers and booleans: JSON writes those the same way."""
    plain = {key: value for key, value in values.items() if not isinstance(value, Mapping)}
    tables = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    header = f"\n[{prefix}]\n" if prefix and plain else ""
    lines = header + "".join(f"{key} = {json.dumps(value)}\n" for key, value in plain.items())
    return lines + "".join(to_toml(table, f"{prefix}.{key}" if prefix else key) for key, table in tables.items())
