"""An engine that can be made to misbehave, over real HTTP: for faults that a real vLLM cannot be talked into.

It answers the three routes of docs/rpc.md and `/metrics`; tests/e2e runs the same daemon against a real vLLM.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

METRICS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0"}} {running}
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0"}} {waiting}
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{engine="0"}} 0.2
# TYPE vllm:num_preemptions counter
vllm:num_preemptions_total{{engine="0"}} 0
# TYPE vllm:request_success counter
vllm:request_success_total{{engine="0",finished_reason="length"}} {finished}
"""


class FakeEngine:
    """State is public: a test sets it and looks at it."""

    def __init__(self) -> None:
        self.boot_id = "boot-a"
        self.generation = 0
        self.cap = 8
        self.running = 8
        self.waiting = 30
        self.finished = 0
        self.fallback: dict[str, float] = {}
        self.patches: list[dict[str, Any]] = []
        self.leases: list[dict[str, Any]] = []
        self.ignore_patches = False
        self.status: int | None = None
        self.metrics_status: int | None = None
        self.drop_answers = False
        """Carry a PATCH out, then break the connection: its answer is lost."""
        self.startup = 64
        app = web.Application()
        app.router.add_get("/governor/v1/runtime", self._get)
        app.router.add_patch("/governor/v1/runtime", self._patch)
        app.router.add_post("/governor/v1/lease", self._lease)
        app.router.add_get("/metrics", self._metrics)
        self.server = TestServer(app)

    @property
    def url(self) -> str:
        return str(self.server.make_url("")).rstrip("/")

    def restart(self) -> None:
        self.boot_id, self.generation, self.cap = "boot-b", 0, 64

    async def _metrics(self, _request: web.Request) -> web.Response:
        if self.metrics_status:
            return web.Response(status=self.metrics_status)
        self.finished += 10
        return web.Response(text=METRICS.format(running=self.running, waiting=self.waiting, finished=self.finished))

    async def _get(self, _request: web.Request) -> web.Response:
        return self._answer()

    async def _patch(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.patches.append(body)
        if (body["boot_id"], body["generation"]) != (self.boot_id, self.generation):
            return self._refuse(412, "stale", "another boot or generation is current")
        if not self.ignore_patches:
            self.cap = body["knobs"]["max_num_seqs"]
            self.generation += 1
            self.running = self.cap
        if self.drop_answers and request.transport is not None:
            request.transport.abort()
        return self._answer()

    async def _lease(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.leases.append(body)
        if body["boot_id"] != self.boot_id:
            return self._refuse(412, "stale", "another boot is current")
        named = body.get("fallback", self.fallback)
        if any(value > self.startup for value in named.values()):
            return self._refuse(422, "out_of_bounds", "the fallback is not within the envelope")
        self.fallback = named
        return self._answer()

    @staticmethod
    def _refuse(status: int, code: str, message: str) -> web.Response:
        return web.json_response({"error": {"code": code, "message": message}}, status=status)

    def _answer(self) -> web.Response:
        if self.status:
            return self._refuse(self.status, "engine_unavailable", "the engine core did not answer in time")
        knobs = {
            "max_num_seqs": {
                "value": self.cap,
                "startup": self.startup,
                "min": 1,
                "max": self.startup,
                "support": "native",
                "reason": None,
            }
        }
        core = {
            "engine": 0,
            "boot_id": self.boot_id,
            "generation": self.generation,
            "running": self.running,
            "waiting": self.waiting,
            "degraded": [],
            "knobs": knobs,
            "lease": {
                "held": True,
                "remaining_s": 14.0,
                "fallback": {"max_num_seqs": self.startup} | self.fallback,
                "expirations": 0,
            },
        }
        return web.json_response(
            {
                "api_version": 1,
                "plugin_version": "0.1.0",
                "vllm_version": "0.32.0",
                "boot_id": self.boot_id,
                "generation": self.generation,
                "engines": [core],
            }
        )
