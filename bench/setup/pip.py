"""Runs pip in an environment: its output to a log, its state to the progress line, its failure to one sentence.

What is installed, and where, never belongs here.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from bench.setup import diagnosis
from bench.setup.errors import SetupError
from bench.setup.places import shown
from bench.setup.progress import Progress

POLL_S = 0.25
STOP_S = 5.0


class PipFailed(Exception):
    """pip ended with an error; `log` is this run's output."""

    def __init__(self, log: str) -> None:
        super().__init__("pip failed")
        self.log = log


class Pip:
    """pip of one interpreter. Unpacks beside what it fills, so that a small /tmp does not matter."""

    def __init__(self, python: Path, log_file: Path, progress: Progress, scratch_in: Path) -> None:
        self._python = python
        self._log_file = log_file
        self._progress = progress
        self._scratch_in = scratch_in
        log_file.parent.mkdir(parents=True, exist_ok=True)

    def run(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        """`pip ARGUMENTS`; raises PipFailed."""
        scratch = Path(tempfile.mkdtemp(prefix=".pip-", dir=self._scratch_in))
        command = [str(self._python), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
        try:
            self._run(command, {**os.environ, **(environment or {}), "TMPDIR": str(scratch), "PYTHONUNBUFFERED": "1"})
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def install(self, what: str, *arguments: str) -> None:
        """`pip install ARGUMENTS`; raises SetupError saying why `what` could not be installed."""
        try:
            self.run("install", "--progress-bar", "off", *arguments)
        except PipFailed as failure:
            raise self.explained(what, failure) from failure

    def explained(self, what: str, failure: PipFailed) -> SetupError:
        """The failure as the sentence to show; what pip said last is shown first."""
        for line in diagnosis.last_lines(failure.log):
            self._progress.say(f"pip: {line}")
        return SetupError(
            f"cannot install {what}: {diagnosis.cause(failure.log)} (pip's whole output: {shown(self._log_file)})"
        )

    def _run(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        lines: list[str] = []
        with self._log_file.open("a") as log:
            log.write(f"$ {' '.join(command)}\n")
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=environment,
                start_new_session=True,
            )
            try:
                for line in self._lines(process):
                    lines.append(line)
                    log.write(line)
                    log.flush()
            except BaseException:
                _end_group(process)
                raise
        if process.wait() != 0:
            raise PipFailed("".join(lines))

    def _lines(self, process: subprocess.Popen[str]) -> Iterator[str]:
        """pip's output as it comes, while the progress line goes on in the silences."""
        assert process.stdout is not None
        arrived: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=_forward, args=(process.stdout, arrived), daemon=True, name="pip-output").start()
        activity = "starting pip"
        while True:
            try:
                line = arrived.get(timeout=POLL_S)
            except queue.Empty:
                self._progress.tick(activity)
                continue
            if line is None:
                return
            yield line
            activity = diagnosis.activity(line) or activity
            self._progress.tick(activity)


def _forward(stream: IO[str], arrived: queue.SimpleQueue[str | None]) -> None:
    with contextlib.suppress(ValueError):  # closed under us while stopping
        for line in stream:
            arrived.put(line)
    arrived.put(None)


def _end_group(process: subprocess.Popen[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
            return
