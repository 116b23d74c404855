"""Both distributions as a user gets them: built, installed into fresh environments, run.

Belongs here: what a wheel and an sdist must hold to work alone. Never: what the commands do.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from bench.ports import free_port

ROOT = Path(__file__).parents[2]
LIMIT_S = 400
NOTHING_LISTENS = "http://127.0.0.1:{port}"

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def run(*command: str | Path, folder: Path, statuses: tuple[int, ...] = (0,)) -> str:
    """What it printed; fails with that where the exit status is another."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VLLM_", "GOVERNOR_"))}
    done = subprocess.run(
        [*map(str, command)], cwd=folder, env=kept, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode in statuses, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist of each, and the wheel that was made of that sdist alone."""
    folder = tmp_path_factory.mktemp("dist")
    for source in (ROOT, ROOT / "engine"):
        run(sys.executable, "-m", "build", "--outdir", folder, source, folder=folder)
    return folder


def environment(folder: Path) -> Path:
    """A fresh one; its programs' folder."""
    venv.create(folder / "env", with_pip=True)
    return folder / "env" / "bin"


def wheel(built: Path, name: str) -> Path:
    (found,) = built.glob(f"{name}-*.whl")
    return found


@pytest.fixture(scope="module")
def daemon(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    programs = environment(tmp_path_factory.mktemp("daemon"))
    run(programs / "pip", "install", "--quiet", wheel(built, "vllm_governor"), folder=built)
    return programs


def test_each_has_a_wheel_and_an_sdist_of_one_version(built: Path) -> None:
    names = sorted(re.sub(r"(-py3-none-any\.whl|\.tar\.gz)$", "", file.name) for file in built.iterdir())
    versions = {name.rpartition("-")[2] for name in names}
    assert len(versions) == 1
    (version,) = versions
    assert names == sorted([f"vllm_governor-{version}", f"vllm_governor_engine-{version}"] * 2)


def test_the_daemon_says_what_it_takes(daemon: Path, tmp_path: Path) -> None:
    assert "--config" in run(daemon / "vllm-governor", "run", "--help", folder=tmp_path)


def test_the_daemon_writes_settings_that_it_takes_again(daemon: Path, tmp_path: Path) -> None:
    engine = NOTHING_LISTENS.format(port=free_port())
    arguments = ("init", "config.toml", "--engine", engine, "--prometheus", NOTHING_LISTENS.format(port=free_port()))
    assert "Engine: none was seen" in run(daemon / "vllm-governor", *arguments, folder=tmp_path)
    code = "from pathlib import Path; from controller.settings import load; print(load(Path('config.toml')).mode)"
    assert "observe" in run(daemon / "python", "-c", code, folder=tmp_path)


def test_the_daemon_checks_a_machine(daemon: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[engine]\nurl = "{NOTHING_LISTENS.format(port=free_port())}"\n')
    command = (daemon / "vllm-governor", "check", "--config", config, "--json")
    said = json.loads(run(*command, folder=tmp_path, statuses=(1, 2)))  # no vLLM is there, so it cannot be 0
    assert {"plugin", "disk"} <= {one["name"] for one in said["results"]}


def test_the_units_come_with_the_daemon(daemon: Path, tmp_path: Path) -> None:
    run(daemon / "vllm-governor", "install", "--root", tmp_path, "--apply", folder=tmp_path)
    assert [*tmp_path.rglob("vllm-governor.service")], "it was taken out of the wheel"


def test_what_the_daemons_image_copies_is_enough_for_its_wheel(tmp_path: Path) -> None:
    lines = (ROOT / "deploy" / "container" / "Containerfile").read_text(encoding="utf-8").splitlines()
    for *sources, target in (line.split()[1:] for line in lines if line.startswith("COPY ") and "--from" not in line):
        for source in sources:
            to = tmp_path / "src" / (Path(target) / source if target == "./" else target)
            to.parent.mkdir(parents=True, exist_ok=True)
            copied = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
            copied(ROOT / source, to)
    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path / "out", tmp_path / "src", folder=tmp_path)
    assert [*(tmp_path / "out").glob("vllm_governor-*.whl")]


def test_the_plugin_needs_nothing_and_says_that_it_wants_vllm(built: Path, tmp_path: Path) -> None:
    programs = environment(tmp_path)
    said = run(programs / "pip", "install", "--no-index", wheel(built, "vllm_governor_engine"), folder=tmp_path)
    assert "Successfully installed vllm-governor-engine" in said
    code = "import vllm_governor_engine as it; print(it.__version__)"
    assert run(programs / "python", "-c", code, folder=tmp_path).strip() in wheel(built, "vllm_governor_engine").name
    metadata = (
        "from importlib.metadata import metadata as of; print(of('vllm-governor-engine').get_all('Requires-Dist'))"
    )
    assert "vllm>=" in run(programs / "python", "-c", metadata, folder=tmp_path)
