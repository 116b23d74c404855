"""The shipped units: systemd takes them, they keep the daemon in, and what it needs is within reach.

systemd's own tools judge the first two; the third is read out of the settings (tests/e2e/test_sandbox.py runs it).
"""

from __future__ import annotations

import fnmatch
import re
import shutil
import sys
from pathlib import Path

import pytest

from controller import app
from controller.cli.init import ENGINE
from controller.ending import Ending
from controller.settings import Settings
from tests.systemd_tools import analyze, version
from tests.unit_file import ROOT, SHIPPED, UnitFile

UNITS = ("vllm-governor.service", "vllm-governor@.service")
MOST_EXPOSED = 1.5
OF_254 = {"RestartSteps", "RestartMaxDelaySec", "notify-reload"}
"""Words of restart-steps.conf that an older systemd does not know."""
DEVICE_NAMES = {
    "R525": {"nvidia-frontend": 195, "nvidia-uvm": 236, "nvidia-caps": 237},
    "R570": {"nvidia": 195, "nvidia-modeset": 195, "nvidiactl": 195, "nvidia-uvm": 511, "nvidia-caps": 235},
}
"""What /proc/devices calls the driver's devices, by driver."""


def unit(name: str) -> UnitFile:
    return UnitFile(SHIPPED / name)


@pytest.fixture
def placed(tmp_path: Path) -> Path:
    """The units in a folder, with a program that is there."""
    program = Path(sys.executable).with_name("vllm-governor")
    for path in SHIPPED.glob("*.service"):
        text = path.read_text().replace("/opt/vllm-governor/bin/vllm-governor", str(program))
        (tmp_path / path.name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", ["vllm-governor.service", "vllm-governor@chat.service"])
def test_systemd_finds_nothing_to_say_about_a_unit(placed: Path, name: str) -> None:
    if "@chat" in name:
        shutil.copy(placed / "vllm-governor@.service", placed / name)
    done = analyze("verify", placed / name)
    assert (done.returncode, done.stderr.strip(), done.stdout.strip()) == (0, "", "")


def test_systemd_would_have_said_something(placed: Path) -> None:
    path = placed / "vllm-governor.service"
    path.write_text(path.read_text().replace("WatchdogSec", "WatchdogSecs"))
    assert "WatchdogSecs" in analyze("verify", path).stderr


def test_the_drop_ins_add_nothing_that_systemd_does_not_know(placed: Path) -> None:
    for name, drop_in in (
        ("vllm.service", "vllm.service.d/governor.conf"),
        ("vllm-governor.service", "restart-steps.conf"),
    ):
        path = placed / name
        if not path.exists():
            path.write_text("[Service]\nExecStart=/bin/true\n")
        (placed / f"{name}.d").mkdir()
        shutil.copy(SHIPPED / drop_in, placed / f"{name}.d" / "governor.conf")
        said = analyze("verify", path).stderr.splitlines()
        unknown = [line for line in said if not (version() < 254 and any(word in line for word in OF_254))]
        assert unknown == []


@pytest.mark.parametrize("name", UNITS)
def test_what_a_broken_daemon_could_reach_is_at_most_what_was_promised(placed: Path, name: str) -> None:
    done = analyze("security", "--offline=true", "--no-pager", placed / name)
    found = re.search(r"Overall exposure level for \S+: (\d+\.\d)", done.stdout)
    assert found is not None, done.stderr
    assert float(found[1]) <= MOST_EXPOSED


def test_the_template_is_the_unit_with_folders_of_its_own() -> None:
    single, template = unit(UNITS[0]).settings, unit(UNITS[1]).settings
    assert single.keys() == template.keys()
    differ = {
        name
        for section in single
        for name in single[section].keys() | template[section].keys()
        if single[section][name] != template[section][name]
    }
    own = {"ConfigurationDirectory", "StateDirectory", "RuntimeDirectory", "LoadCredential"}
    assert differ == own | {"Description", "ExecStart", "ConfigurationDirectoryMode"}
    for name in own:
        assert all("vllm-governor/%i" in value for value in template["Service"][name])


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("driver", DEVICE_NAMES)
def test_every_driver_names_its_devices_so_that_nvml_may_open_them(name: str, driver: str) -> None:
    """S4: `char-nvidia-frontend` alone gives "init fine, 0 GPUs" on a driver that calls them otherwise."""
    allowed = [value.split() for value in unit(name).all("DeviceAllow")]
    assert unit(name).one("DevicePolicy") == "closed"
    groups = {
        device: next((rights for what, rights in allowed if fnmatch.fnmatch(f"char-{device}", what)), "")
        for device in DEVICE_NAMES[driver]
    }
    assert set(groups.values()) == {"rw"}, "NVML opens the card, nvidiactl and, for MIG, nvidia-caps to read and write"
    by_number = {what for what, rights in allowed if rights == "rw"}
    early = {f"/dev/char/195:{number}" for number in (255, *range(8))}
    assert early <= by_number, "nvidiactl without the cards, where the driver comes late, would be 0 GPUs"
    assert unit(name).one("PrivateDevices") is None, "it would hide them"


@pytest.mark.parametrize("name", UNITS)
def test_vllm_webhooks_prometheus_and_postgresql_are_within_reach_wherever_they_are(name: str) -> None:
    families = set(unit(name).words("RestrictAddressFamilies"))
    assert families == {"AF_INET", "AF_INET6", "AF_UNIX"}, "all of them, and the manager's own socket, and no other"
    assert unit(name).all("IPAddressDeny") == []
    assert unit(name).one("PrivateNetwork") is None
    deny = set(unit(name).all("SystemCallFilter")[-1].lstrip("~").split())
    assert not deny & {"@network-io", "@file-system", "@io-event", "@ipc", "@process"}


@pytest.mark.parametrize("name", UNITS)
def test_what_it_writes_may_be_written_and_what_it_reads_may_be_read(name: str) -> None:
    found = unit(name)
    assert found.one("ProtectSystem") == "strict"
    below = (found.one("StateDirectory"), found.one("RuntimeDirectory"), found.one("ConfigurationDirectory"))
    (folder,) = set(below)
    assert f"/etc/{folder}/config.toml" in (found.one("ExecStart") or "")
    for variable in ("ENGINE", "API"):
        credential = {"ENGINE": "engine-token", "API": "api-token"}[variable]
        assert f"GOVERNOR_{variable}__TOKEN_FILE=%t/credentials/%n/{credential}" in found.all("Environment")
        assert any(value.startswith(f"{credential}:/etc/{folder}/") for value in found.all("LoadCredential"))
    assert found.one("ProtectProc") is None, (
        "whether another daemon has ended is read there: a hidden one seems to have"
    )
    assert found.one("ProcSubset") is None, "NVML reads /proc/driver/nvidia"


@pytest.mark.parametrize("name", UNITS)
def test_the_times_go_with_those_of_the_daemon(name: str) -> None:
    found, settings = unit(name), Settings()
    assert int(found.one("TimeoutStopSec") or 0) > Ending(app.STOP_S).left_s() + app.LEAST_FLUSH_S
    longest_tick_s = 5 * settings.engine.timeout_s + 5.0 + 3 * settings.tick_s
    assert int(found.one("WatchdogSec") or 0) > 2 * longest_tick_s
    assert int(found.one("LimitNOFILE") or 0) > 10_000, "api.connections at most"


def test_settings_that_cannot_be_used_are_not_tried_again_and_all_else_is_for_ever() -> None:
    found = unit(UNITS[0])
    assert (found.one("Restart"), found.one("RestartPreventExitStatus")) == ("on-failure", "2")
    assert found.one("StartLimitIntervalSec", "Unit") == "0"
    assert int(found.one("RestartSec") or 0) >= 10, "an old systemd has no other brake"
    steps = UnitFile(SHIPPED / UNITS[0], SHIPPED / "restart-steps.conf")
    assert (steps.one("Type"), steps.all("ExecReload")) == ("notify-reload", []), "or SIGHUP would be sent twice"
    assert steps.one("RestartMaxDelaySec") == "5min"


def test_it_waits_for_no_vllm() -> None:
    after = unit(UNITS[0]).all("After", "Unit") + unit(UNITS[0]).all("Requires", "Unit")
    assert "vllm.service" not in " ".join(after)


def test_the_drop_in_names_variables_that_the_plugin_reads_and_the_seeds_limits() -> None:
    path = SHIPPED / "vllm.service.d" / "governor.conf"
    text = path.read_text()
    readme = (ROOT / "engine" / "README.md").read_text()
    named = set(re.findall(r"^#? ?Environment=(\w+)=", text, re.MULTILINE))
    assert named == {"VLLM_PLUGINS", "VLLM_GOVERNOR_TOKEN_FILE", "VLLM_GOVERNOR_SOCKET", "VLLM_GOVERNOR_SOCKET_GROUP"}
    assert all(variable in readme for variable in named)
    active = UnitFile(path)
    assert active.all("Environment") == [
        "VLLM_PLUGINS=governor",
        "VLLM_GOVERNOR_TOKEN_FILE=%t/credentials/%n/governor-token",
    ]
    assert active.all("LoadCredential") == ["governor-token:/etc/vllm-governor/token"]
    for limit in ("LimitNOFILE=100000", "MemoryMax=88G", "MemorySwapMax=2G", "CPUAffinity=0-15"):
        assert f"# {limit}" in text.splitlines(), "a value of the seeds is a proposal: it stands behind a #"
    assert ENGINE == "http://127.0.0.1:8000", "where vllm serve listens without --port"
