"""`python stepped.py ...` is `locust -f stepped.py --headless ...`, and its --help tells of the test's own options.

locust's --help is given before it has read any file, so it knows none of them. Belongs here: that. Never: an option.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from locust.argument_parser import LocustArgumentParser

SHORT = 40
"""Columns of the names in front of what is said of them, so that each fits on a line."""


def run(file: str, said: str, add_arguments: Callable[[LocustArgumentParser], None]) -> None:
    """Called where a load test is run as a program. Does not return."""
    arguments = sys.argv[1:]
    if {"-h", "--help"}.isdisjoint(arguments):
        command = [sys.executable, "-m", "locust", "-f", file, "--headless", *arguments]
        os.execv(sys.executable, command)
    parser = LocustArgumentParser(
        prog=f"locust -f {Path(file).name} --headless",
        usage="%(prog)s --host URL [options]",
        description=said,
        epilog="Beside these it takes all of locust's own, which locust --help tells.",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=SHORT, width=120),
    )
    add_arguments(parser)
    parser.print_help()
    sys.exit(0)
