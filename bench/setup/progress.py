"""Shows that a long step lives: one live line on a terminal, a plain line now and then elsewhere.

Everything goes to stderr, so that stdout stays a command's own. What the step is never belongs here.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TextIO

PLAIN_EVERY_S = 10.0
LIVE_EVERY_S = 0.5


def megabytes(folder: Path) -> float:
    """What the files under `folder` take on disk, in MB."""
    total = 0
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError:  # pip moves folders while we look
            continue
    return total / 1e6


class Progress:
    """The progress of one step that fills one folder."""

    def __init__(self, title: str, folder: Path, stream: TextIO | None = None) -> None:
        self._title = title
        self._folder = folder
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._started_s = time.monotonic()
        self._shown_s = self._started_s if not self._live else 0.0
        self._sized_s = 0.0
        self._sizing_s = 0.0
        self._size_mb = 0.0

    def tick(self, activity: str) -> None:
        """Shows the state if it is time to; cheap enough to call several times a second."""
        now_s = time.monotonic()
        if now_s - self._shown_s < (LIVE_EVERY_S if self._live else PLAIN_EVERY_S):
            return
        self._shown_s = now_s
        # A large environment takes a while to walk: never more than a twentieth of the time goes there.
        if now_s - self._sized_s > max(2.0, 20 * self._sizing_s):
            self._size_mb = megabytes(self._folder)
            self._sized_s = time.monotonic()
            self._sizing_s = self._sized_s - now_s
        line = f"{self._title}: {now_s - self._started_s:3.0f} s, {self._size_mb:,.0f} MB on disk, {activity}"
        if self._live:
            width = (os.get_terminal_size(self._stream.fileno()).columns or 80) - 1
            self._stream.write(f"\r\x1b[2K{line[:width]}")
        else:
            self._stream.write(line + "\n")
        self._stream.flush()

    def say(self, text: str) -> None:
        """A line that stays."""
        self._stream.write(("\r\x1b[2K" if self._live else "") + f"{self._title}: {text}\n")
        self._stream.flush()

    def elapsed_s(self) -> float:
        """Seconds since the step began."""
        return time.monotonic() - self._started_s
