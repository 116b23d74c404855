"""`python3 bench/environments.py daemon|vllm|engines [...]`: makes what `make run` and the tests run in.

Which environments and the exit code belong here; the making is `bench.setup`. Runs on the system's Python before
anything is installed: the standard library alone, and up to the version check a syntax that old Pythons read.
"""

import os
import signal
import sys

OLDEST_PYTHON = (3, 11)
TOO_OLD = (
    "cannot set up with Python %s (%s): it takes 3.11 or newer; install one (Debian: apt-get install python3 "
    "python3-venv) or name one as in make run PYTHON=python3.12\n"
)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main(arguments):
    # type: (list[str]) -> int
    """Exit code 0: everything asked for is there. 1: it is not, and one sentence says why. 130: interrupted."""
    if sys.version_info < OLDEST_PYTHON:
        found = ".".join(str(number) for number in sys.version_info[:2])
        sys.stderr.write(TOO_OLD % (found, sys.executable))
        return 1
    # As a script Python puts bench/ first on the path; the project's root is what the imports below mean.
    sys.path[0] = ROOT
    from bench.setup.command import run

    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return run(arguments)
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; run it again and it goes on where it stopped\n")
        return 130


def _interrupt(number, frame):  # type: ignore[no-untyped-def]
    raise KeyboardInterrupt


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
