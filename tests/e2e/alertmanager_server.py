"""A real Alertmanager as a child process, and what it says over its API and through amtool.

Belongs here: configuring, asking. Never: starting and ending (child_server.py), what a test tells it, the daemon's own
receiver.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.ports import free_port
from bench.setup import debian
from tests.e2e.child_server import ChildServer
from tests.programs import need
from tests.waiting import PATIENCE_S

BUILT_IN = b"/usr/share/prometheus/alertmanager"
"""Where Debian's looks for its templates, whatever it is told."""
FROM_HERE = b"usr/share/prometheus//alertmanager"
"""The same below the working folder, and as long."""


class AlertmanagerServer(ChildServer):
    """Groups by name and tells `tells`, which is one of its `webhook_configs`, at once and then again after `repeats`;
    nobody when that is None.
    """

    def __init__(self, folder: Path, tells: Mapping[str, Any] | None = None, repeats: str = "1h") -> None:
        port = free_port()
        folder.mkdir(parents=True)
        program = need("prometheus-alertmanager")
        root = debian.extracted_root(program)
        config = folder / "alertmanager.yml"
        config.write_text(json.dumps(_config(tells, repeats)))  # JSON is YAML
        command = [
            str(program if root is None else _from_its_folder(program, folder)),
            f"--config.file={config}",
            f"--storage.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        ]
        url, log = f"http://127.0.0.1:{port}", folder / "alertmanager.log"
        super().__init__(command, url, folder if root is None else root, log)

    async def alerts(self) -> list[dict[str, Any]]:
        """The alerts that are not over, by name."""
        async with self.session.get(f"{self.url}/api/v2/alerts") as answer:
            assert answer.status == 200, await answer.text()
            found: list[dict[str, Any]] = await answer.json()
        return sorted(found, key=lambda alert: str(alert["labels"]["alertname"]))

    async def post(self, *alerts: Mapping[str, Any]) -> None:
        """Tell it of alerts as Prometheus would."""
        async with self.session.post(f"{self.url}/api/v2/alerts", json=alerts) as answer:
            assert answer.status == 200, await answer.text()

    async def amtool(self, *arguments: str) -> Any:
        """What amtool prints as JSON."""
        command = [str(need("amtool")), f"--alertmanager.url={self.url}", "--output=json", *arguments]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, errors = await asyncio.wait_for(process.communicate(), PATIENCE_S)
        assert process.returncode == 0, errors.decode()
        return json.loads(out)


def _config(tells: Mapping[str, Any] | None, repeats: str) -> dict[str, Any]:
    route = {"receiver": "ops", "group_by": ["alertname"], "group_wait": "0s", "group_interval": "1s"}
    told = {} if tells is None else {"webhook_configs": [dict(tells)]}
    return {"route": route | {"repeat_interval": repeats}, "receivers": [{"name": "ops", **told}]}


def _from_its_folder(program: Path, folder: Path) -> Path:
    """A copy that finds its templates below the folder it is started in: it was extracted, not installed.

    Debian's program knows them by one absolute path, which nothing but the program itself can change without rights
    on this machine. One that keeps them inside itself has no such path, and the copy is the same.
    """
    copy = folder / program.name
    copy.write_bytes(program.read_bytes().replace(BUILT_IN, FROM_HERE))
    copy.chmod(0o755)
    return copy
