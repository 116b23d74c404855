"""A real Prometheus as a child process, and PromQL asked without the daemon's own client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.child_server import ChildServer
from tests.programs import need

CONFIG = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs: {jobs}
"""


class PrometheusServer(ChildServer):
    """Scrapes `targets` (job to host:port) every second and keeps what it got under `folder`."""

    def __init__(self, folder: Path, port: int, targets: Mapping[str, str]) -> None:
        folder.mkdir(parents=True)
        jobs = [{"job_name": job, "static_configs": [{"targets": [target]}]} for job, target in targets.items()]
        config = folder / "prometheus.yml"
        config.write_text(CONFIG.format(jobs=json.dumps(jobs)))
        command = [
            str(need("prometheus")),
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        super().__init__(command, f"http://127.0.0.1:{port}", folder, folder / "prometheus.log")

    async def rows(self, query: str, at_s: float | None = None) -> list[dict[str, Any]]:
        """The rows of an instant query."""
        params = {"query": query} | ({} if at_s is None else {"time": f"{at_s:.3f}"})
        async with self.session.get(f"{self.url}/api/v1/query", params=params) as answer:
            body = await answer.json()
        assert body["status"] == "success", body
        rows: list[dict[str, Any]] = body["data"]["result"]
        return rows

    async def number(self, query: str, at_s: float | None = None) -> float | None:
        """The one number that a query answers, None for none."""
        rows = await self.rows(query, at_s)
        assert len(rows) <= 1, rows
        return float(rows[0]["value"][1]) if rows else None
