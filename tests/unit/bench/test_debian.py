"""The laws of fetching Debian packages, with an apt-get and a dpkg that only say what they were asked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.setup import debian, places
from tests.programs import need

POSTGRESQL = next(package for package in debian.PACKAGES if package.name == "postgresql")
DOWNLOADS = """#!/bin/sh
echo "apt-get $*" >> "$CALLS"
case "$*" in
  *download*) [ -e "$LISTS" ] || { echo "E: Unable to locate package" >&2; exit 100; }; echo > prometheus_1_all.deb ;;
  *update*) touch "$LISTS" ;;
esac
"""
EXTRACTS = """#!/bin/sh
mkdir -p "$3/usr/bin"
for name in prometheus promtool; do printf '#!/bin/sh\n' > "$3/usr/bin/$name"; chmod +x "$3/usr/bin/$name"; done
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose PATH holds a shell's tools and what a test puts into bin/."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for tool in ("mkdir", "touch", "chmod", "sh"):
        (programs / tool).symlink_to(f"/bin/{tool}")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("LISTS", str(tmp_path / "lists"))
    monkeypatch.delenv(debian.NEED_ALL, raising=False)
    monkeypatch.setattr(places, "DEBIAN", tmp_path / "debian")
    monkeypatch.setattr(places, "LOCK", tmp_path / "lock")
    monkeypatch.setattr(debian, "ROOT", tmp_path / "root")
    monkeypatch.setattr(debian, "PACKAGES", [one for one in debian.PACKAGES if one.name == "prometheus"])
    return tmp_path


def put(machine: Path, name: str, text: str) -> None:
    (machine / "bin" / name).write_text(text)
    (machine / "bin" / name).chmod(0o755)


def calls(machine: Path) -> list[str]:
    """What apt-get was asked for, without its options."""
    file = machine / "calls"
    words = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return [" ".join(w for w in line if w in ("update", "download", "prometheus", "install")) for line in words]


def test_a_package_is_extracted_never_installed_and_the_second_time_nothing_is_done(machine: Path) -> None:
    put(machine, "apt-get", DOWNLOADS)
    put(machine, "dpkg", EXTRACTS)
    (machine / "lists").touch()
    assert debian.program("promtool") is None
    debian.make_debian()
    assert debian.program("promtool") == machine / "debian" / "prometheus" / "usr" / "bin" / "promtool"
    debian.make_debian()
    assert calls(machine) == ["download prometheus"]
    assert [path.name for path in (machine / "debian").iterdir()] == ["prometheus"]


def test_package_lists_are_fetched_only_where_a_download_needs_them_and_root_asks(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put(machine, "apt-get", DOWNLOADS)
    put(machine, "dpkg", EXTRACTS)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    debian.make_debian()
    assert calls(machine) == ["download prometheus"]
    assert "sudo apt-get install -y prometheus (the tests that need it skip)" in capsys.readouterr().err
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    debian.make_debian()
    assert calls(machine)[1:] == ["download prometheus", "update", "download prometheus"]
    assert debian.program("prometheus") is not None


def test_what_is_on_path_is_used_and_nothing_is_fetched(machine: Path) -> None:
    put(machine, "apt-get", DOWNLOADS)
    put(machine, "prometheus", "#!/bin/sh\n")
    put(machine, "promtool", "#!/bin/sh\n")
    debian.make_debian()
    assert calls(machine) == []
    assert need("prometheus") == machine / "bin" / "prometheus"


def test_without_apt_a_test_skips_and_says_how_unless_all_is_needed(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    debian.make_debian()
    with pytest.raises(pytest.skip.Exception, match="sudo apt-get install -y prometheus"):
        need("promtool")
    monkeypatch.setenv(debian.NEED_ALL, "1")
    debian.make_debian()
    assert "there is no apt-get on this machine" in capsys.readouterr().err
    with pytest.raises(pytest.fail.Exception, match="cannot run promtool"):
        need("promtool")


LACKS = """#!/bin/sh
echo "apt-get $*" >> "$CALLS"
case "$*" in
  *" install "*) for name in libc6 libjson-perl libz3-4 libllvm14 libpq5 postgresql-common postgresql-client-15 \
    tzdata postgresql-15 postgresql; do echo "Inst $name (1.0 Debian:12 [amd64])"; done ;;
  *download*) echo > postgresql-15_1_all.deb ;;
esac
"""
EXTRACTS_SERVER = """#!/bin/sh
mkdir -p "$3/usr/lib/postgresql/15/bin" "$3/usr/lib/x86_64-linux-gnu"
cd "$3/usr/lib/postgresql/15/bin"
for name in initdb postgres; do printf '#!/bin/sh\n' > $name; chmod +x $name; done
"""


@pytest.fixture
def server_only(machine: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same machine, which is to have PostgreSQL."""
    monkeypatch.setattr(debian, "PACKAGES", [POSTGRESQL])
    return machine


def test_a_server_comes_with_the_libraries_that_the_machine_lacks_and_nothing_more(server_only: Path) -> None:
    put(server_only, "apt-get", LACKS)
    put(server_only, "dpkg", EXTRACTS_SERVER)
    debian.make_debian()
    asked = (server_only / "calls").read_text().splitlines()[-1].partition(" download ")[2].split()
    assert asked == ["postgresql", "libpq5", "tzdata", "postgresql-15"]
    initdb = debian.program("initdb")
    root = server_only / "debian" / "postgresql"
    assert initdb == root / "usr/lib/postgresql/15/bin/initdb"
    assert debian.extracted_root(initdb) == root
    assert debian.libraries(root) == [root / "usr/lib/x86_64-linux-gnu"]


def test_a_server_that_is_installed_off_path_is_used_and_the_newest_of_them(server_only: Path) -> None:
    for release in ("15", "17"):
        folder = server_only / "root" / "usr/lib/postgresql" / release / "bin"
        folder.mkdir(parents=True)
        for name in ("initdb", "postgres"):
            (folder / name).write_text("#!/bin/sh\n")
            (folder / name).chmod(0o755)
    put(server_only, "apt-get", LACKS)
    debian.make_debian()
    assert calls(server_only) == []
    assert debian.program("postgres") == server_only / "root/usr/lib/postgresql/17/bin/postgres"
    assert debian.extracted_root(need("postgres")) is None
