"""The run behind `make test-engines`: on each vLLM the plugin's tests, a live server and the question what it supports.

Order, exit code and where the findings go belong here. The environments are `bench.setup.engines`', the tests tests/'.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.engines.table import render
from bench.setup import engines, places

FOUND = places.VAR / "engines"
DOCUMENT = places.ROOT / "docs" / "compatibility.md"
_COUNT = re.compile(r"(\d+) (passed|failed|skipped|error)")


def main(arguments: Sequence[str]) -> int:
    """0 when every version passed; 1 otherwise. The document is written when all versions have been asked."""
    parser = argparse.ArgumentParser(prog="python -m bench engines", description="Test the plugin on several vLLMs.")
    parser.add_argument("--only", action="append", choices=engines.VERSIONS, metavar="VERSION", help="may be repeated")
    parser.add_argument("--skip-suite", action="store_true", help="the live servers alone; keeps what is known")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on a line of its own")
    options = parser.parse_args(arguments)
    FOUND.mkdir(parents=True, exist_ok=True)
    chosen = [version for version in engines.VERSIONS if version in (options.only or engines.VERSIONS)]
    passed = True
    for version in chosen:
        found = _read(version)
        if not options.skip_suite:
            found["suite"] = _suite(version)
        found["kinds"] = _kinds(version)
        found["live_passed"] = _live(version)
        found["live"] = _documents(version)
        (FOUND / f"{version}.json").write_text(json.dumps(found, indent=1))
        passed &= found["suite"].get("returncode") == 0 and found["live_passed"]
    findings = {version: _read(version) for version in engines.VERSIONS}
    if all("live" in found for found in findings.values()):
        DOCUMENT.write_text(render(findings))
        print(f"written: {places.shown(DOCUMENT)}")
    if options.json:
        print(json.dumps({version: findings[version]["suite"] for version in chosen}))
    return 0 if passed else 1


def _read(version: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((FOUND / f"{version}.json").read_text())
    except (OSError, ValueError):
        return {"suite": {}}
    return found


def _suite(version: str) -> dict[str, Any]:
    """The plugin's tests in this version's environment; what they print goes to a log, what failed to the terminal."""
    print(f"== vLLM {version}: the plugin's tests, in-process", flush=True)
    log, began_s = places.LOGS / f"test-engines-{version}.log", time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [str(_python(version)), "-m", "pytest", "-q", "-m", "not long", "-p", "no:cacheprovider", "tests/engine"]
    with log.open("w") as output:
        done = subprocess.run(
            command, cwd=places.ROOT, env=_environment(), stdout=output, stderr=subprocess.STDOUT, check=False
        )
    lines = log.read_text(errors="replace").splitlines()
    for line in lines:
        if line.startswith(("FAILED", "ERROR")):
            print(line)
    summary = next((line for line in reversed(lines) if _COUNT.search(line)), "")
    counts = {kind: int(number) for number, kind in _COUNT.findall(summary)}
    print(f"   {summary.strip('= ') or 'no summary'} (log: {places.shown(log)})", flush=True)
    return {**counts, "returncode": done.returncode, "seconds": round(time.monotonic() - began_s)}


def _live(version: str) -> bool:
    """One server of this version, and on the newest two engine cores behind two API processes."""
    print(f"== vLLM {version}: a live server", flush=True)
    (FOUND / f"{version}.live.json").unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/versions"]
    environment = {**os.environ, "TEST_VLLM": version}
    return subprocess.run(command, cwd=places.ROOT, env=environment, check=False).returncode == 0


def _documents(version: str) -> Any:
    path = FOUND / f"{version}.live.json"
    return json.loads(path.read_text()) if path.exists() else None


def _kinds(version: str) -> Mapping[str, Any]:
    done = subprocess.run(
        [str(_python(version)), "-m", "bench.engines.collect"],
        cwd=places.ROOT,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        print(f"cannot ask vLLM {version} what it supports: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
        return {}
    kinds: Mapping[str, Any] = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    return kinds


def _python(version: str) -> Path:
    return engines.environment(version) / "bin" / "python"


def _environment() -> dict[str, str]:
    before = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join([str(places.ENGINE_SOURCE), str(places.ROOT), *([before] if before else [])])
    return {**os.environ, "PYTHONPATH": path}
