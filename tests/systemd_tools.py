"""systemd's own judge of units, installed or out of the Debian package.

Belongs here: calling it. Never: what it ought to find.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from bench.setup import debian
from tests.programs import need
from tests.waiting import PATIENCE_S


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`systemd-analyze` with these. Without a systemd on the machine it takes the package's libraries and targets."""
    program = need("systemd-analyze")
    environment = {**os.environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0"}
    root = debian.extracted_root(program)
    if root is not None:
        folders = debian.libraries(root)
        environment["LD_LIBRARY_PATH"] = ":".join(str(path) for one in folders for path in (one, one / "systemd"))
        units = (root / "lib/systemd/system", root / "usr/lib/systemd/system")
        environment["SYSTEMD_UNIT_PATH"] = "".join(f"{path}:" for path in units)
    done = subprocess.run(
        [program, *arguments], env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    # Where it lies, the package's links lead out of the folder; that is none of a unit's faults.
    done.stderr = "".join(line for line in done.stderr.splitlines(True) if "Suspicious symlink" not in line)
    return done


def version() -> int:
    """As 252."""
    return int(analyze("--version").stdout.split()[1])
