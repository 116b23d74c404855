"""Files, tokens and programs of the machine: what each check on them comes out with."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.preflight.result import FAIL, NOT_APPLICABLE, PASS, UNKNOWN, WARN
from tests.preflight_scene import GIB, Cases, Scene

CASES = Cases()
SHIPPED = Path(__file__).parents[2] / "deploy" / "nginx" / "vllm.conf"
NGINX = """
http {{
    {http}   # "a comment" with a {{ in it
    upstream vllm {{ server 127.0.0.1:{port}; {upstream} }}
    include conf.d/*.conf;
    log_format x 'a {{ b; c';
    server {{ location / {{ proxy_pass http://vllm; }} }}
}}
"""


def disk(scene: Scene, free_ratio: float, free_gib: float = 100.0) -> None:
    """The file system's size is not the test's to choose."""
    patch = pytest.MonkeyPatch()
    patch.setattr("store.health.free_ratio", lambda _path: free_ratio)
    patch.setattr("store.health.free_bytes", lambda _path: int(free_gib * GIB))
    scene.undo.append(patch.undo)


@CASES("disk", PASS, "40% of the file system")
def room(scene: Scene) -> None:
    disk(scene, 0.4)


@CASES("disk", WARN, "8% of the file system", "vllm-governor db prune")
def little_room(scene: Scene) -> None:
    disk(scene, 0.08)


@CASES("disk", WARN, "may grow to 2048 MB", "vllm-governor db prune")
def less_than_the_history_may_take(scene: Scene) -> None:
    disk(scene, 0.5, free_gib=1.0)


@CASES("disk", FAIL, "3% of the file system", "vllm-governor db prune")
def hardly_any_room(scene: Scene) -> None:
    disk(scene, 0.03)


@CASES("disk", FAIL, "its directory must exist", "install -d -o vllm-governor")
def no_directory(scene: Scene) -> None:
    scene.plain["store"] = {"url": str(scene.folder / "gone" / "history.db")}


@CASES("disk", NOT_APPLICABLE, "no file on this machine")
def history_elsewhere(scene: Scene) -> None:
    scene.plain["store"] = {"url": "postgresql://127.0.0.1/governor"}


def token(scene: Scene, text: str = "a-token", mode: int = 0o640) -> Path:
    path = scene.file("token", text)
    path.chmod(mode)
    scene.plain["api"] = {"token_file": str(path)}
    return path


@CASES("tokens", PASS, "api.token_file")
def tight_token(scene: Scene) -> None:
    token(scene)


@CASES("tokens", WARN, "api.token_file is not set", "vllm-governor init")
def no_token(_scene: Scene) -> None:
    return


@CASES("tokens", FAIL, "mode 0644", "sudo chmod o=,g-w")
def token_that_all_may_read(scene: Scene) -> None:
    token(scene, mode=0o644)


@CASES("tokens", FAIL, "mode 0660", "sudo chmod o=,g-w")
def token_that_the_group_may_write(scene: Scene) -> None:
    token(scene, mode=0o660)


@CASES("tokens", FAIL, "is empty", "openssl rand")
def empty_token(scene: Scene) -> None:
    token(scene, text="\n")


@CASES("tokens", FAIL, "is not there", "openssl rand")
def missing_token(scene: Scene) -> None:
    token(scene).unlink()


@CASES("tokens", FAIL, "alerts.receivers.ops.secret_file", "sudo chmod")
def receivers_secret_that_all_may_read(scene: Scene) -> None:
    secret = scene.file("secret", "s")
    secret.chmod(0o604)
    ops = {"kind": "webhook", "url": "http://127.0.0.1:9/", "secret_file": str(secret)}
    scene.plain["alerts"] = {"receivers": {"ops": ops}}


@CASES("tokens", UNKNOWN, "cannot be seen by this user")
def token_behind_a_door(scene: Scene) -> None:
    long = scene.folder / ("n" * 300)  # as any other error of the file system
    scene.plain["api"] = {"token_file": str(long)}


@CASES("triton", NOT_APPLICABLE, "not installed")
def no_triton(_scene: Scene) -> None:
    return


@CASES("triton", PASS, "tritonserver 2.48.0")
def new_triton(scene: Scene) -> None:
    scene.program("tritonserver", "tritonserver 2.48.0")


@CASES("triton", FAIL, "tritonserver 2.2.9 is older than 2.3.0", "docker pull")
def old_triton(scene: Scene) -> None:
    scene.program("tritonserver", "tritonserver 2.2.9")


@CASES("triton", UNKNOWN, "tells no version")
def triton_that_says_nothing(scene: Scene) -> None:
    scene.program("tritonserver", "unrecognised option")


@CASES("load_tool", PASS, "/bin/locust")
def locust(scene: Scene) -> None:
    scene.program("locust", "")


@CASES("load_tool", WARN, "not installed", "pipx install locust")
def no_locust(_scene: Scene) -> None:
    return


@CASES("nginx", NOT_APPLICABLE, "not set up here")
def no_nginx(_scene: Scene) -> None:
    return


@CASES("nginx", NOT_APPLICABLE, "passes nothing to port 8000")
def nginx_for_something_else(scene: Scene) -> None:
    scene.file("etc/nginx/nginx.conf", NGINX.format(http="", upstream="", port=3000))


@CASES("nginx", PASS, "are the seeds' or more")
def nginx_as_the_seeds_ask(scene: Scene) -> None:
    http = "keepalive_timeout 3m; keepalive_requests 1000;"
    scene.file("etc/nginx/nginx.conf", NGINX.format(http=http, upstream="keepalive 32;", port=8000))


@CASES("nginx", WARN, "keepalive_timeout is 75, the seeds' is 180; keepalive is 0, the seeds' is 32", "nginx -t")
def nginx_as_it_comes(scene: Scene) -> None:
    scene.file("etc/nginx/nginx.conf", NGINX.format(http="", upstream="", port=8000))


@CASES("nginx", WARN, "keepalive_timeout is 5,", "nginx -t")
def nginx_with_a_server_of_a_shorter_time_in_an_include(scene: Scene) -> None:
    http = "keepalive_timeout 180s; keepalive_requests 1000;"
    scene.file("etc/nginx/nginx.conf", NGINX.format(http=http, upstream="keepalive 32;", port=8000))
    scene.file("etc/nginx/conf.d/old.conf", "server { keepalive_timeout 5; location / { proxy_pass http://vllm/; } }")


@CASES("nginx", PASS, "are the seeds' or more")
def nginx_whose_short_time_is_of_another_server(scene: Scene) -> None:
    http = "keepalive_timeout 180s;"
    scene.file("etc/nginx/nginx.conf", NGINX.format(http=http, upstream="keepalive 32;", port=8000))
    scene.file("etc/nginx/conf.d/other.conf", "server { keepalive_timeout 5; }")


@CASES("nginx", PASS, "are the seeds' or more")
def nginx_with_the_shipped_file_under_the_distributions_own(scene: Scene) -> None:
    scene.file("etc/nginx/nginx.conf", "http { keepalive_timeout 65; include /etc/nginx/conf.d/*.conf; }")
    scene.file("etc/nginx/conf.d/vllm.conf", SHIPPED.read_text(encoding="utf-8"))


@CASES("nginx", WARN, "keepalive is 0, the seeds' is 32", "nginx -t")
def nginx_without_an_upstream(scene: Scene) -> None:
    passes = "server { location / { proxy_pass http://127.0.0.1:8000; } }"
    scene.file("etc/nginx/nginx.conf", f"http {{ keepalive_timeout 180s; {passes} include nginx.conf; }}")


@CASES("nginx", UNKNOWN, "is no time of nginx's")
def nginx_with_a_variable_for_a_time(scene: Scene) -> None:
    scene.file("etc/nginx/nginx.conf", NGINX.format(http="keepalive_timeout $x;", upstream="", port=8000))
