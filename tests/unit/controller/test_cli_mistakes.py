"""What is asked of a history and cannot be: a sentence with the way out, never a trace nor an empty answer that looks
like one. On a real SQLite file.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.__main__ import app
from domain.errors import SettingsError
from store.health import COMPANIONS
from tests.filled import NODE, filled
from tests.programs import without

BEYOND = "9" * 20
PROGRAM = (sys.executable, "-m", "controller")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("template") / "h.db")


@pytest.fixture
def file(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(template, tmp_path))


def refused(file: Path, *words: str) -> str:
    """The sentence; the exit code is that of arguments which cannot be used."""
    done = CliRunner().invoke(app, [*words, "--db", str(file)])
    if isinstance(done.exception, SettingsError):
        return str(done.exception)
    assert done.exit_code == 2, done.output
    return " ".join(re.sub("[│╭╰─╮╯]", " ", done.output).split())


@pytest.mark.parametrize("name", ["", *COMPANIONS])
@pytest.mark.parametrize("force", [(), ("--force",)])
def test_an_export_never_writes_over_the_history_nor_over_what_belongs_to_it(
    file: Path, name: str, force: tuple[str, ...]
) -> None:
    before = file.read_bytes()
    said = refused(file, "db", "export", "--table", "decisions", "-o", f"{file}{name}", *force)
    assert "is there already" in said or "that is the history itself" in said
    assert file.read_bytes() == before
    assert [one.name for one in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_nor_under_another_name(file: Path, link: object) -> None:
    other = file.parent / "other.csv"
    link(file, other)  # type: ignore[operator]
    said = refused(file, "db", "export", "--table", "decisions", "-o", str(other), "--force")
    assert "that is the history itself" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("decisions", "--knob", "max_num_seq"), "cannot use --knob max_num_seq: there is no such name; did you mean"),
        (("decisions", "--policy", "load_shedd"), "did you mean load_shed?"),
        (("decisions", "--policy", "x"), "cannot use --policy x: there is no such name; there are load_shed"),
        (("decisions", "--node", "gpu1"), f"did you mean {NODE}?"),
        (("times", "--node", "gpu1"), f"cannot use --node gpu1: there is no such name; did you mean {NODE}?"),
        (("at", "1h", "--node", "gpu1"), f"did you mean {NODE}?"),
        (("cost", "--node", "gpu1"), f"did you mean {NODE}?"),
        (("db", "export", "--table", "runs", "--node", "gpu1"), f"did you mean {NODE}?"),
        (("cost", "--by", "max_num_sqs"), "cannot use --by max_num_sqs: there is no such name; did you mean max_num_s"),
        (("cost", "--per-kwh", "inf"), "a price is a number of at least 0"),
        (("cost", "--per-gpu-hour", "nan"), "Invalid value for '--per-gpu-hour'"),
        (("decisions", "--since", "1h", "--until", "2h"), "--since must lie before --until"),
        (("db", "export", "--table", "runs", "--since", "1h", "--until", "2h"), "--since must lie before --until"),
        (("decisions", "--since", "9999-12-31T23:59-12:00"), "cannot use --since 9999-12-31T23:59-12:00"),
        (("decisions", "--until", "0001-01-01T00:00+12:00"), "cannot use --until 0001-01-01T00:00+12:00"),
        (("at", "0001-01-01T00:00+12:00"), "cannot use MOMENT 0001-01-01T00:00+12:00"),
        (("cost", "--compare", "0001-01-01T00:00+12:00..1h"), "cannot use --compare 0001-01-01T00:00+12:00"),
        (("explain", BEYOND), f"cannot explain decision {BEYOND}: the history has none of that number"),
        (("explain", "0"), "the history has none of that number"),
    ],
)
def test_what_cannot_be_meant_is_named_with_what_can(file: Path, words: tuple[str, ...], said: str) -> None:
    assert said in refused(file, *words)


def test_a_page_before_a_number_beyond_all_is_the_newest_and_one_before_the_first_is_empty(file: Path) -> None:
    def listed(*words: str) -> str:
        done = CliRunner().invoke(app, ["decisions", "--json", *words, "--db", str(file)])
        assert done.exit_code == 0, done.output
        return done.output

    assert listed("--before", BEYOND) == listed()
    assert listed("--before", f"-{BEYOND}") == ""


@pytest.mark.parametrize("format_", ["csv", "jsonl"])
def test_a_standard_output_without_room_is_a_sentence(file: Path, format_: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, "db", "export", "--db", str(file), "--table", "decisions", "--format", format_],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == (
        "vllm-governor: cannot write to standard output: No space left on device; what is there is not all\n"
    )


READ_ONLY = 'mount --bind "$DIR" "$DIR"; mount -o remount,bind,ro "$DIR"; exec "$@"'


def on_a_read_only_medium(file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """As a backup on one: not even root writes there. The mount is that process's alone."""
    rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    done = subprocess.run(
        ["unshare", "--mount", *rights, "sh", "-c", READ_ONLY, "sh", *PROGRAM, *words, "--db", str(file)],
        env={**os.environ, "DIR": str(file.parent)}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    if "mount" in done.stderr:
        without(f"cannot mount in a namespace of its own: {done.stderr.strip()[-200:]}; run as root with CAP_SYS_ADMIN")
    return done


@pytest.mark.parametrize("words", [("decisions",), ("db", "check"), ("cost",)])
def test_a_history_that_may_only_be_read_is_read(file: Path, words: tuple[str, ...]) -> None:
    done = on_a_read_only_medium(file, *words)
    assert done.stderr == ""
    assert "cannot" not in done.stdout


def test_one_whose_newest_rows_are_in_a_log_that_cannot_be_read_says_what_to_do(file: Path) -> None:
    Path(f"{file}-wal").write_bytes(b"\0" * 100)
    done = on_a_read_only_medium(file, "decisions")
    assert done.returncode == 1
    assert "its newest rows are in h.db-wal" in done.stderr
    assert "copy h.db and h.db-wal together" in done.stderr


def test_a_reload_that_is_asked_for_before_the_settings_are_read_does_not_end_the_daemon(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    os.mkfifo(config)
    with subprocess.Popen([*PROGRAM, "run", "--config", str(config)], stderr=subprocess.PIPE, text=True) as daemon:
        with config.open("w") as file:  # it is open once the daemon reads it
            daemon.send_signal(signal.SIGHUP)
            file.write("modus = 1")
        _, said = daemon.communicate(timeout=60)
    assert daemon.returncode == 2, said
    assert "modus" in said
