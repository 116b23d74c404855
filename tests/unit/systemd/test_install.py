"""`install` and `uninstall`: said before done, the same when done twice, and what a person changed is left alone."""

from __future__ import annotations

import os
import shutil
import stat
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from controller.__main__ import app
from controller.cli import install_files
from controller.cli.install_files import Target
from domain.errors import CannotInstall, SettingsError
from tests.programs import without
from tests.systemd_tools import analyze
from tests.unit_file import ROOT, SHIPPED, UnitFile

PROGRAM = Path("/opt/governor/bin/vllm-governor")
SYSTEMCTL = """#!/bin/sh
[ "$1" = --version ] && { echo "systemd $SYSTEMD (x)"; exit 0; }
for last; do :; done
case "$1 $THERE " in
  show*" $last "*) echo loaded; exit 0 ;;
  show*) echo not-found; exit 0 ;;
  list-unit-files*) printf '%s enabled enabled\\n' vllm-governor.service $THERE; exit 0 ;;
esac
echo "systemctl $*" >> "$CALLS"
case "$*" in
  enable*) mkdir -p "$MACHINE/etc/systemd/system/multi-user.target.wants"
    for unit; do :; done; touch "$MACHINE/etc/systemd/system/multi-user.target.wants/$unit" ;;
  disable*) for unit; do :; done; rm -f "$MACHINE/etc/systemd/system/multi-user.target.wants/$unit" ;;
esac
"""
TMPFILES = """#!/bin/sh
echo "systemd-tmpfiles $*" >> "$CALLS"
mkdir -p "$MACHINE/etc/vllm-governor"
"""
SYSUSERS = """#!/bin/sh
echo "systemd-sysusers $*" >> "$CALLS"
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A whole machine, with a systemd that only notes what it was asked."""
    programs, root = tmp_path / "bin", tmp_path / "machine"
    programs.mkdir()
    root.mkdir()
    for name, text in (("systemctl", SYSTEMCTL), ("systemd-tmpfiles", TMPFILES), ("systemd-sysusers", SYSUSERS)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("MACHINE", str(root))
    monkeypatch.setenv("SYSTEMD", "252")
    monkeypatch.setenv("THERE", "vllm.service vllm@chat.service vllm@rag.service llm-server.service")
    monkeypatch.setattr(install_files, "MACHINE", root)
    monkeypatch.setattr(install_files, "program", lambda: PROGRAM)
    return root


def calls(machine: Path) -> list[str]:
    file = machine.parent / "calls"
    return file.read_text().splitlines() if file.exists() else []


def run(machine: Path, command: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, [command, "--root", str(machine), *arguments])


def files(machine: Path) -> set[str]:
    return {str(path.relative_to(machine)) for path in machine.rglob("*") if path.is_file()}


OURS = {
    "etc/systemd/system/vllm-governor.service",
    "etc/systemd/system/vllm.service.d/governor.conf",
    "etc/sysusers.d/vllm-governor.conf",
    "etc/tmpfiles.d/vllm-governor.conf",
}
TOKENS = {"etc/vllm-governor/token", "etc/vllm-governor/api-token"}
ENABLED = "etc/systemd/system/multi-user.target.wants/vllm-governor.service"


def test_without_apply_every_step_is_said_and_nothing_is_done(machine: Path) -> None:
    said = run(machine, "install")
    assert (said.exit_code, files(machine), calls(machine)) == (0, set(), [])
    done = run(machine, "install", "--apply")
    steps = [line for line in said.output.splitlines() if not line.startswith((" ", "Nothing"))]
    assert steps == [line for line in done.output.splitlines() if not line.startswith((" ", "Done"))]
    assert files(machine) == OURS | TOKENS | {ENABLED}
    assert calls(machine) == [
        "systemd-sysusers vllm-governor.conf",
        "systemd-tmpfiles --create vllm-governor.conf",
        "systemctl daemon-reload",
        "systemctl enable vllm-governor.service",
    ]


def test_the_unit_starts_this_program_and_the_tokens_are_roots_alone(machine: Path) -> None:
    run(machine, "install", "--apply")
    unit = UnitFile(machine / "etc/systemd/system/vllm-governor.service")
    assert unit.one("ExecStart") == f"{PROGRAM} run --config /etc/vllm-governor/config.toml"
    tokens = [machine / name for name in sorted(TOKENS)]
    assert [stat.S_IMODE(path.stat().st_mode) for path in tokens] == [0o600, 0o600]
    assert len({path.read_text() for path in tokens}) == 2
    assert min(len(path.read_text().strip()) for path in tokens) >= 40


def test_what_is_left_to_the_operator_is_said_and_settings_that_are_there_start_it(machine: Path) -> None:
    first = run(machine, "install", "--apply").output
    assert "systemctl restart vllm.service" in first, "it is not ours to restart"
    assert "vllm-governor init /etc/vllm-governor/config.toml --engine-token-file /etc/vllm-governor/token" in first
    (machine / "etc/vllm-governor/config.toml").write_text("")
    second = run(machine, "install", "--apply").output
    assert "vllm-governor init" not in second
    assert calls(machine)[-1] == "systemctl enable --now vllm-governor.service"


def test_a_second_time_writes_nothing(machine: Path) -> None:
    run(machine, "install", "--apply")
    before = {name: ((machine / name).read_text(), (machine / name).stat().st_mtime_ns) for name in OURS | TOKENS}
    done = run(machine, "install", "--apply")
    assert done.exit_code == 0
    assert {name: ((machine / name).read_text(), (machine / name).stat().st_mtime_ns) for name in before} == before
    assert done.output.count("is there already") == len(before)


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_a_file_that_was_changed_by_hand_is_kept_and_said_unless_it_is_forced(machine: Path, command: str) -> None:
    run(machine, "install", "--apply")
    path = machine / "etc/systemd/system/vllm-governor.service"
    path.write_text(changed := path.read_text().replace("WatchdogSec=60", "WatchdogSec=600"))
    done = run(machine, command, "--apply")
    assert done.exit_code == 1
    assert f"keep {path}: it was changed by hand, or is not ours (--force" in done.output
    assert path.read_text() == changed
    forced = run(machine, command, "--apply", "--force")
    assert forced.exit_code == 0
    assert not path.exists() if command == "uninstall" else "WatchdogSec=60\n" in path.read_text()


def test_a_file_of_another_version_that_nobody_touched_is_renewed(machine: Path) -> None:
    path = machine / "etc/systemd/system/vllm-governor.service"
    path.parent.mkdir(parents=True)
    path.write_text(install_files.sealed("[Service]\nExecStart=/old\n"))
    done = run(machine, "install", "--apply")
    assert (done.exit_code, f"renew {path}" in done.output) == (0, True)
    assert UnitFile(path).one("Type") == "notify"


def test_what_install_did_uninstall_undoes_but_for_settings_and_history(machine: Path) -> None:
    run(machine, "install", "--apply")
    done = run(machine, "uninstall", "--apply")
    assert (done.exit_code, files(machine)) == (0, TOKENS)
    assert not (machine / "etc/systemd/system/vllm.service.d").exists()
    assert calls(machine)[-2:] == ["systemctl disable --now vllm-governor.service", "systemctl daemon-reload"]
    assert "rm -r /etc/vllm-governor /var/lib/vllm-governor" in done.output
    again = run(machine, "uninstall", "--apply")
    assert (again.exit_code, files(machine)) == (0, TOKENS)


def test_instances_share_what_is_shared_until_the_last_one_goes(machine: Path) -> None:
    for name in ("chat", "rag"):
        assert run(machine, "install", "--apply", "--instance", name).exit_code == 0
    drop_in = UnitFile(machine / "etc/systemd/system/vllm@chat.service.d/governor.conf")
    assert drop_in.all("LoadCredential") == ["governor-token:/etc/vllm-governor/chat/token"]
    assert {"etc/vllm-governor/chat/token", "etc/vllm-governor/rag/token"} <= files(machine)
    assert stat.S_IMODE((machine / "etc/vllm-governor/chat").stat().st_mode) == 0o755
    run(machine, "uninstall", "--apply", "--instance", "chat")
    there = files(machine)
    assert "etc/systemd/system/vllm-governor@.service" in there, "rag needs it"
    assert "etc/sysusers.d/vllm-governor.conf" in there
    assert "etc/systemd/system/vllm@chat.service.d/governor.conf" not in there
    run(machine, "uninstall", "--apply", "--instance", "rag")
    assert {name for name in files(machine) if not name.startswith("etc/vllm-governor/")} == set()


def test_the_unnamed_one_goes_alone_and_the_folders_of_the_instances_are_not_to_be_removed(machine: Path) -> None:
    for arguments in ((), ("--instance", "chat")):
        assert run(machine, "install", "--apply", *arguments).exit_code == 0
    done = run(machine, "uninstall", "--apply")
    there = files(machine)
    assert "etc/systemd/system/vllm-governor.service" not in there
    assert {"etc/systemd/system/vllm-governor@.service", "etc/sysusers.d/vllm-governor.conf"} <= there
    assert "rm -r" not in done.output
    assert "rm /etc/vllm-governor/{config.toml,token,api-token}" in done.output


def test_vllms_own_unit_is_the_one_that_is_named(machine: Path) -> None:
    run(machine, "install", "--apply", "--vllm-unit", "llm-server.service")
    assert "etc/systemd/system/llm-server.service.d/governor.conf" in files(machine)


@pytest.mark.parametrize(
    ("there", "named"), [("vllm-chat.service", "there is vllm-chat.service"), ("", "none has vllm in its name")]
)
def test_a_unit_of_vllm_that_is_not_there_is_said_with_those_that_are_and_the_daemon_is_installed(
    machine: Path, monkeypatch: pytest.MonkeyPatch, there: str, named: str
) -> None:
    monkeypatch.setenv("THERE", there)
    done = run(machine, "install", "--apply")
    assert done.exit_code == 1
    assert (
        f"drop-in for vllm.service: systemd has no such unit; name vLLM's own with --vllm-unit ({named})" in done.output
    )
    assert "systemctl restart vllm.service" not in done.output
    assert files(machine) == OURS - {"etc/systemd/system/vllm.service.d/governor.conf"} | TOKENS | {ENABLED}
    again = "vllm-governor install --apply --instance b --vllm-unit NAME.service"
    assert again in run(machine, "install", "--instance", "b").output
    if there:
        assert run(machine, "install", "--apply", "--vllm-unit", there).exit_code == 0
        assert f"etc/systemd/system/{there}.d/governor.conf" in files(machine)


@pytest.mark.parametrize(("systemd", "there"), [("249", False), ("252", False), ("254", True), ("257", True)])
def test_rarer_restarts_go_to_a_systemd_that_knows_them(
    machine: Path, monkeypatch: pytest.MonkeyPatch, systemd: str, there: bool
) -> None:
    monkeypatch.setenv("SYSTEMD", systemd)
    run(machine, "install", "--apply")
    assert ("etc/systemd/system/vllm-governor.service.d/restart-steps.conf" in files(machine)) is there


def test_a_step_that_fails_ends_it_with_the_cause(machine: Path) -> None:
    (machine.parent / "bin" / "systemd-tmpfiles").write_text("#!/bin/sh\necho 'Failed: no such group' >&2\nexit 73\n")
    done = run(machine, "install", "--apply")
    assert isinstance(done.exception, CannotInstall)
    assert "cannot run systemd-tmpfiles --create vllm-governor.conf: Failed: no such group; put" in str(done.exception)
    assert ENABLED not in files(machine)


def test_without_systemd_it_says_so(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(machine))
    assert run(machine, "install").exit_code == 0, "the steps may be read anywhere"
    done = run(machine, "install", "--apply")
    assert "there is no systemd-sysusers on this machine; it takes systemd" in str(done.exception)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--instance", "a/b"], "cannot use --instance a/b"),
        (["--instance", ""], "cannot use --instance"),
        (["--vllm-unit", "../vllm.service"], "cannot use --vllm-unit"),
        (["--vllm-unit", "vllm"], "it is no unit's name as vllm.service"),
    ],
)
def test_names_that_no_unit_can_have_are_refused(machine: Path, arguments: list[str], words: str) -> None:
    done = run(machine, "install", *arguments)
    assert isinstance(done.exception, SettingsError)
    assert words in str(done.exception)


def test_a_program_that_the_unit_could_not_see_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    with pytest.raises(SettingsError, match=r"there is no .*vllm-governor; install the package"):
        install_files.program()
    (tmp_path / "vllm-governor").touch()
    with pytest.raises(SettingsError, match=r"hides from the daemon; .* python3 -m venv /opt/vllm-governor"):
        install_files.program(hidden=(tmp_path,))
    assert install_files.program(hidden=()) == tmp_path / "vllm-governor"
    monkeypatch.setattr("sys.base_prefix", str(tmp_path / "pyenv"))
    with pytest.raises(SettingsError, match=r"pyenv lies in .* a Python of all users \(/usr/bin/python3"):
        install_files.program(hidden=(tmp_path / "pyenv",))


def test_the_shipped_files_are_found_and_all_of_them_are_used() -> None:
    shipped = {path.name for path in SHIPPED.rglob("*") if path.is_file()}
    assert {path.name for path in install_files.units().iterdir() if path.is_file()} <= shipped
    placed = [
        one
        for target in (Target(), Target(instance="a"))
        for one in (*install_files.shared(target), *install_files.unit_files(target, PROGRAM, 254))
    ]
    assert len({one.text for one in placed}) == len(shipped) - 1, "and the drop-in of vLLM"


def test_in_an_image_the_real_tools_make_the_user_and_the_folder_and_no_secret(tmp_path: Path) -> None:
    for tool in ("systemctl", "systemd-sysusers", "systemd-tmpfiles"):
        if shutil.which(tool) is None:
            without(f"there is no {tool} here")
    if os.geteuid() != 0:
        without("the owner of a folder in an image is set by root alone")
    done = run(tmp_path, "install", "--apply")
    assert done.exit_code == 0, (done.output, done.exception)
    (user,) = [line for line in (tmp_path / "etc/passwd").read_text().splitlines() if "vllm-governor" in line]
    assert user.endswith(":vllm-governor daemon:/var/lib/vllm-governor:/usr/sbin/nologin")
    folder = (tmp_path / "etc/vllm-governor").stat()
    assert (stat.S_IMODE(folder.st_mode), folder.st_uid, folder.st_gid) == (0o750, 0, int(user.split(":")[3]))
    assert list((tmp_path / "etc/vllm-governor").iterdir()) == [], "every machine of the image would have the same"
    enabled = tmp_path / "etc/systemd/system/multi-user.target.wants/vllm-governor.service"
    assert enabled.is_symlink()
    assert (
        "/opt/vllm-governor/bin/vllm-governor run"
        in (tmp_path / "etc/systemd/system/vllm-governor.service").read_text()
    )
    assert run(tmp_path, "uninstall", "--apply").exit_code == 0
    assert not enabled.is_symlink()


def test_the_sealed_unit_is_still_one_that_systemd_takes(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install_files, "program", lambda: Path("/bin/true"))
    run(machine, "install", "--apply")
    done = analyze("verify", machine / "etc/systemd/system/vllm-governor.service")
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_the_wheel_and_the_source_distribution_carry_the_units() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    assert build["wheel"]["force-include"]["systemd"] == "controller/supervision/units", "where units() looks first"
    assert "systemd" in build["sdist"]["include"], "or a wheel made of it would have none"


def test_init_writes_the_units_history_into_the_settings(tmp_path: Path) -> None:
    """So that commands that read the history find it without the unit's STATE_DIRECTORY."""
    file, nowhere = tmp_path / "config.toml", "http://127.0.0.1:9"
    arguments = ["init", str(file), "--engine", nowhere, "--prometheus", nowhere, "--store", "/var/lib/x/history.db"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert tomllib.loads(file.read_text())["store"]["url"] == "/var/lib/x/history.db"
