"""What an nginx of the bench and the tests is told: the shipped files fitted to a port, or nginx's own defaults.

Text in, text out. Belongs here: fitting. Never: running it, and a setting that changes how the shipped files behave.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.connections.certificate import Certificate
from bench.setup import places

SHIPPED = places.ROOT / "deploy" / "nginx"
TEMPORARY = ("client_body", "proxy", "fastcgi", "scgi", "uwsgi")


class Unfit(Exception):
    """A shipped file does not hold a text that is to be replaced, or holds it twice."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Where this nginx listens, with what, and to which vLLM (host:port) it passes on."""

    folder: Path
    port: int
    certificate: Certificate
    upstream: str


def shipped(fit: Fit) -> tuple[str, str]:
    """The main file and the site as they are shipped, each place that is this machine's replaced."""
    main = _replaced(
        (SHIPPED / "nginx.conf").read_text(encoding="utf-8"),
        {
            "pid /run/nginx.pid;": f"pid {fit.folder}/nginx.pid;",
            "include /etc/nginx/conf.d/*.conf;": f"include {fit.folder}/conf.d/*.conf;",
        },
    )
    site = _replaced(
        (SHIPPED / "vllm.conf").read_text(encoding="utf-8"),
        {
            "server 127.0.0.1:8000;": f"server {fit.upstream};",
            "listen 443 ssl;": f"listen 127.0.0.1:{fit.port} ssl;",
            "/etc/nginx/tls/vllm.crt;": f"{fit.certificate.chain};",
            "/etc/nginx/tls/vllm.key;": f"{fit.certificate.key};",
        },
    )
    return main, site


def defaults(fit: Fit) -> tuple[str, str]:
    """The least that passes requests on: all else is nginx's own choice."""
    main = f"""pid {fit.folder}/nginx.pid;
events {{}}
http {{ include {fit.folder}/conf.d/*.conf; }}
"""
    site = f"""server {{
    listen 127.0.0.1:{fit.port} ssl;
    ssl_certificate {fit.certificate.chain};
    ssl_certificate_key {fit.certificate.key};
    location / {{ proxy_pass http://{fit.upstream}; }}
}}
"""
    return main, site


def write(fit: Fit, texts: tuple[str, str]) -> Path:
    """Writes both and what an nginx needs that was not installed; answers the main file."""
    (fit.folder / "conf.d").mkdir(parents=True)
    here = [f"{name}_temp_path {fit.folder}/{name};" for name in TEMPORARY]
    here += [
        "log_format counted '$connection $status $ssl_session_reused $uri';",
        f"access_log {fit.folder}/access.log counted;",
    ]
    (fit.folder / "conf.d" / "here.conf").write_text("\n".join(here) + "\n")
    (fit.folder / "conf.d" / "vllm.conf").write_text(texts[1])
    main = fit.folder / "nginx.conf"
    main.write_text(texts[0])
    return main


def _replaced(text: str, places_of: dict[str, str]) -> str:
    for old, new in places_of.items():
        if text.count(old) != 1:
            raise Unfit(f"cannot fit the shipped files: {old!r} is there {text.count(old)} times, not once")
        text = text.replace(old, new)
    return text
