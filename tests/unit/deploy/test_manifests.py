"""Kubernetes manifests and the compose file, held against their schemas and against the product.

Belongs here: what those files name exists. Never: a cluster.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from controller import settings as settings_module
from tests.programs import need
from tests.unit_file import UnitFile

ROOT = Path(__file__).parents[3]
KUBERNETES, COMPOSE = ROOT / "deploy" / "kubernetes", ROOT / "deploy" / "compose"
VERSIONS = ("1.28", "1.31", "1.34")
SOCKET, SOCKET_GROUP = "VLLM_GOVERNOR_SOCKET", "VLLM_GOVERNOR_SOCKET_GROUP"


def documents(name: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all((KUBERNETES / name).read_text(encoding="utf-8")) if one]


KUSTOMIZATION = documents("kustomization.yaml")[0]
RESOURCES = [(name, one) for name in KUSTOMIZATION["resources"] for one in documents(name)]
POD = next(one for _, one in RESOURCES if one["kind"] == "Deployment")["spec"]["template"]["spec"]
CONTAINERS = {one["name"]: one for one in POD["containers"]}
STACK = yaml.safe_load((COMPOSE / "compose.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("name", "resource"), RESOURCES, ids=lambda one: one if isinstance(one, str) else one["kind"])
def test_a_resource_fits_kubernetes_schema_without_an_unknown_field(
    name: str, resource: dict[str, Any], version: str
) -> None:
    kubernetes_validate.validate(resource, version, strict=True)


def test_a_misspelt_field_would_be_found() -> None:
    wrong = yaml.safe_load(yaml.safe_dump(next(one for _, one in RESOURCES if one["kind"] == "Deployment")))
    wrong["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_all_files_of_the_folder_are_in_the_kustomization() -> None:
    made = [file for one in KUSTOMIZATION["configMapGenerator"] for file in one["files"]]
    assert {*KUSTOMIZATION["resources"], *made, "kustomization.yaml"} == {file.name for file in KUBERNETES.iterdir()}


def test_services_and_probes_reach_ports_that_are_there() -> None:
    named = {port["name"]: port["containerPort"] for one in CONTAINERS.values() for port in one["ports"]}
    for _, resource in RESOURCES:
        for port in resource["spec"]["ports"] if resource["kind"] == "Service" else ():
            assert port["port"] == named[port["targetPort"]]
    assert named["api"] == settings_module.ApiSettings().port
    for one in CONTAINERS.values():
        for probe in (value for key, value in one.items() if key.endswith("Probe")):
            assert probe["httpGet"]["port"] in {port["name"] for port in one["ports"]}


def test_the_probes_of_the_daemon_are_routes_that_need_no_token() -> None:
    source = (ROOT / "controller" / "api" / "health.py").read_text(encoding="utf-8")
    for probe in ("startupProbe", "livenessProbe"):
        assert f'Route("GET", "{CONTAINERS["governor"][probe]["httpGet"]["path"]}", Access.OPEN' in source


def test_a_daemon_that_stumbles_does_not_take_vllm_out_of_its_service() -> None:
    """A pod is ready when all of its containers are."""
    assert "readinessProbe" not in CONTAINERS["governor"]
    assert "readinessProbe" in CONTAINERS["vllm"]


def test_an_answer_that_takes_its_time_is_no_reason_to_end_anybody() -> None:
    """Kubernetes' own patience is a second, the start of a daemon may be the migration of a large history."""
    probes = {(name, key): one[key] for name, one in CONTAINERS.items() for key in one if key.endswith("Probe")}
    assert all(probe["timeoutSeconds"] >= 5 for (_, key), probe in probes.items() if key != "startupProbe")
    start = probes["governor", "startupProbe"]
    seconds = UnitFile(ROOT / "systemd" / "vllm-governor.service").one("TimeoutStartSec")
    assert (start["periodSeconds"] * start["failureThreshold"], seconds) == (300, "5min")


def test_every_mount_has_its_volume_and_each_volume_is_mounted() -> None:
    mounted = {mount["name"] for one in CONTAINERS.values() for mount in one["volumeMounts"]}
    assert mounted == {volume["name"] for volume in POD["volumes"]}


def test_the_sidecar_reads_the_gpus_and_takes_none() -> None:
    governor = CONTAINERS["governor"]
    assert not any("gpu" in resource for part in governor["resources"].values() for resource in part)
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in governor["env"]


def test_the_sidecar_may_do_nothing_beside_its_work() -> None:
    context = CONTAINERS["governor"]["securityContext"]
    assert context["runAsNonRoot"]
    assert context["readOnlyRootFilesystem"]
    assert not context["allowPrivilegeEscalation"]
    assert context["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("name", ["vllm", "governor"])
def test_what_is_built_here_has_no_right_of_its_own_under_compose_either(name: str) -> None:
    service = STACK["services"][name]
    assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
    assert not {"privileged", "ipc", "pid", "network_mode"} & service.keys()


def environments() -> Iterator[tuple[str, Mapping[str, str], str | None]]:
    pod = {one["name"]: one.get("value", "pod") for one in CONTAINERS["governor"]["env"]}
    yield "kubernetes", pod, (KUBERNETES / "config.toml").read_text(encoding="utf-8")
    yield "compose", STACK["services"]["governor"]["environment"], None


@pytest.mark.parametrize(("where", "environment", "config"), [*environments()])
def test_the_daemon_takes_the_settings_and_both_sides_name_one_socket(
    where: str, environment: Mapping[str, str], config: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    file = None
    if config is not None:
        file = tmp_path / "config.toml"
        file.write_text(config)
    settings = settings_module.load(file)
    assert settings.mode == "observe", "whoever tries it changes nothing"
    vllm = {"kubernetes": {one["name"]: one["value"] for one in CONTAINERS["vllm"]["env"]}}.get(
        where, STACK["services"]["vllm"]["environment"]
    )
    assert str(settings.engine.admin_socket) == vllm[SOCKET]


def test_variables_of_the_plugin_exist() -> None:
    named = {one["name"] for one in CONTAINERS["vllm"]["env"]} | set(STACK["services"]["vllm"]["environment"])
    sources = (ROOT / "engine" / "vllm_governor_engine").rglob("*.py")
    read = {
        name for file in sources for name in re.findall(r'= "(VLLM_GOVERNOR_\w+)"', file.read_text(encoding="utf-8"))
    }
    assert {SOCKET, SOCKET_GROUP} <= {name for name in named if name.startswith("VLLM_GOVERNOR")} <= read


def test_the_group_that_may_open_the_socket_is_the_daemons() -> None:
    group = {one["name"]: one.get("value") for one in CONTAINERS["vllm"]["env"]}[SOCKET_GROUP]
    assert (
        group == str(CONTAINERS["governor"]["securityContext"]["runAsGroup"]) == str(POD["securityContext"]["fsGroup"])
    )
    assert STACK["services"]["vllm"]["environment"][SOCKET_GROUP] == group
    assert STACK["services"]["vllm"]["group_add"] == [group], "without rights only a member may give a file to a group"
    assert f"USER {group}:{group}" in (ROOT / "deploy" / "container" / "Containerfile").read_text(encoding="utf-8")


def test_the_compose_file_fits_the_compose_specification() -> None:
    program = str(Path(sys.executable).with_name("check-jsonschema"))
    command = [program, "--builtin-schema", "vendor.compose-spec", str(COMPOSE / "compose.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_compose_file_mounts_files_that_are_there_and_publishes_to_this_machine_alone() -> None:
    for service in STACK["services"].values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert (COMPOSE / source).exists() if source.startswith(".") else source in STACK["volumes"], source
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        if "build" in service:
            assert (COMPOSE / service["build"]["context"] / service["build"]["dockerfile"]).is_file()


def test_the_dashboard_lies_where_grafanas_provider_looks() -> None:
    providers = yaml.safe_load((ROOT / "deploy/grafana/provisioning/dashboards/vllm-governor.yml").read_text())
    folder = providers["providers"][0]["options"]["path"]
    assert any(f":{folder}/" in volume for volume in STACK["services"]["grafana"]["volumes"])


def test_prometheus_takes_the_compose_files_configuration(tmp_path: Path) -> None:
    (tmp_path / "prometheus.yml").write_text((COMPOSE / "prometheus.yml").read_text())
    (tmp_path / "rules.yml").write_text((ROOT / "deploy" / "prometheus" / "rules.yml").read_text())
    command = [str(need("promtool")), "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_scrapes_what_the_daemon_then_selects() -> None:
    scraped = {one["job_name"] for one in yaml.safe_load((COMPOSE / "prometheus.yml").read_text())["scrape_configs"]}
    environment = STACK["services"]["governor"]["environment"]
    wanted = {environment[f"GOVERNOR_PROMETHEUS__{side}_SELECTOR"] for side in ("VLLM", "GOVERNOR")}
    assert {f'job="{job}"' for job in scraped} == wanted


def test_the_image_holds_every_package_of_the_wheel() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    copied = [
        line.split()[1]
        for line in (ROOT / "deploy" / "container" / "Containerfile").read_text(encoding="utf-8").splitlines()
        if line.startswith("COPY ") and "--from" not in line
    ]
    assert {*wheel["packages"], *wheel.get("force-include", {})} <= {*copied}
