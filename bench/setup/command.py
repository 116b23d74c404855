"""The command behind `bench/environments.py`: arguments to steps, errors to one sentence.

Order and exit code belong here. What a step does never does.
"""

from __future__ import annotations

import argparse
import sys

from bench.setup import checks, places
from bench.setup.debian import make_debian
from bench.setup.engines import make_engines
from bench.setup.errors import SetupError
from bench.setup.plugin import make_plugin
from bench.setup.venvs import make_daemon, make_vllm


def run(arguments: list[str]) -> int:
    """Makes what is named; 0 when all of it is there."""
    parser = argparse.ArgumentParser(
        prog="bench/environments.py",
        description="Make the environments that the project runs in, or find them made. VLLM_ENV=path uses your own "
        "environment with vLLM and changes nothing in it.",
    )
    parser.add_argument(
        "names",
        nargs="+",
        choices=("daemon", "vllm", "engines", "plugin"),
        help="daemon: .venv; vllm: .venv-vllm and the plugin; engines: that, and an environment for each further vLLM "
        "that the plugin is tested on; plugin: build/plugin alone",
    )
    parser.add_argument(
        "--tests",
        action="store_true",
        help="also what the tests need: real servers out of Debian packages, and with VLLM_ENV the packages in there",
    )
    chosen = parser.parse_args(arguments)
    try:
        if "daemon" in chosen.names:
            make_daemon()
        if "vllm" in chosen.names:
            _vllm(tests=chosen.tests)
        if "engines" in chosen.names:
            make_engines()
        if {"plugin", "vllm", "engines"} & set(chosen.names):
            make_plugin()
        if chosen.tests:
            make_debian()
    except SetupError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(
            f"cannot set up the environments: {error.filename or 'a file'} failed with {error.strerror or error}; free "
            "space or fix its permissions and run it again",
            file=sys.stderr,
        )
        return 1
    return 0


def _vllm(*, tests: bool) -> None:
    own = places.own_vllm_env()
    if own is None:
        make_vllm()
        return
    checks.check_own_vllm_env(own)
    if tests:
        checks.check_test_packages(own)
