"""nginx in front of vLLM keeps connections as long as the seeds ask.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from controller.preflight import nginx_conf
from controller.preflight.nginx_conf import Block, seconds
from controller.preflight.result import NOT_APPLICABLE, PASS, UNKNOWN, WARN, Check, DoesNotApply, Found
from controller.preflight.surroundings import Surroundings

TIMEOUT_S, REQUESTS, UPSTREAM = 180.0, 1000.0, 32.0
DEFAULTS = {"keepalive_timeout": 75.0, "keepalive_requests": 1000.0, "keepalive": 0.0}
"""nginx's own."""
CURE = "sudo cp deploy/nginx/vllm.conf /etc/nginx/conf.d/vllm.conf && sudo nginx -t && sudo nginx -s reload"


def _look(around: Surroundings) -> Found:
    root = nginx_conf.read(around.roots.etc / "nginx")
    if root is None:
        raise DoesNotApply("nginx is not set up here")
    engine = urlsplit(around.settings.engine.url)
    port = engine.port or {"http": 80, "https": 443}[engine.scheme]
    low = [said for http in root.named("http") for said in _of(http, port)]
    if not low:
        raise DoesNotApply(f"nginx passes nothing to port {port}, where vLLM listens")
    found = [said for said in low if said]
    if found:
        return Found(WARN, "; ".join(dict.fromkeys(found)), CURE)
    return Found(PASS, "keepalive_timeout, keepalive_requests and the upstream's keepalive are the seeds' or more")


def _of(http: Block, port: int) -> Iterator[str]:
    """For each server that passes to vLLM what is too low, empty where nothing is."""
    upstreams = {one.argument: one for one in http.named("upstream") if _names(one.values("server"), port)}
    for server in http.named("server"):
        passes = list(server.all("proxy_pass"))
        used = [one for name, one in upstreams.items() if any(urlsplit(target).netloc == name for target in passes)]
        if not used and not _names(passes, port):
            continue
        yield _low("keepalive_timeout", TIMEOUT_S, server, http)
        yield _low("keepalive_requests", REQUESTS, server, http)
        for upstream in used or [Block("upstream")]:
            yield _low("keepalive", UPSTREAM, upstream)


def _names(arguments: list[str], port: int) -> bool:
    return any(urlsplit(one if "//" in one else f"//{one}").netloc.endswith(f":{port}") for one in arguments)


def _low(name: str, least: float, *blocks: Block) -> str:
    """The innermost block that says so counts."""
    said = next((value for block in blocks for value in block.values(name)), None)
    value = DEFAULTS[name] if said is None else seconds(said)
    return f"{name} is {value:g}, the seeds' is {least:g}" if value < least else ""


CHECK = Check(
    "nginx",
    "nginx in front of vLLM: keepalive_timeout 180 s, keepalive_requests 1000, upstream keepalive 32",
    "seed 2, long connections",
    frozenset({PASS, WARN, NOT_APPLICABLE, UNKNOWN}),
    _look,
)
