"""An engine that can be made to misbehave, over real HTTP: for faults that a real vLLM cannot be talked into.

It answers the routes of docs/rpc.md that the daemon calls, and `/metrics`; tests/e2e runs the same daemon against a
real vLLM.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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

RECORD_FIELDS = (
    "finished_at", "reason", "prompt_tokens", "output_tokens", "hit_tokens", "preemptions",
    "queue_s", "ttft_s", "e2e_s", "tpot_s",
)  # fmt: skip


class FakeEngine:
    """State is public: a test sets it and looks at it."""

    def __init__(self, port: int | None = None) -> None:
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
        self.refuses: set[str] = set()
        """A PATCH that names one of these is refused as a whole, as out of bounds."""
        self.status: int | None = None
        self.metrics_status: int | None = None
        self.metrics_answer: Callable[[], web.Response] | None = None
        """What `/metrics` answers, in place of what is here."""
        self.answering = asyncio.Event()
        """Cleared: a renewal of the lease is not answered before it is set."""
        self.answering.set()
        self.degraded: list[dict[str, str]] = []
        """Parts of the plugin that switched themselves off."""
        self.names_holder = False
        """Let a lease have a holder, as newer plugins do."""
        self.holder: str | None = None
        self.drop_answers = False
        """Carry a PATCH out, then break the connection: its answer is lost."""
        self.on_patch: Callable[[Any], None] = lambda _body: None
        """Called when a PATCH has arrived, before it is carried out."""
        self.startup = 64
        self.knobs: dict[str, dict[str, Any]] = {}
        """Knobs besides the cap, each as the runtime tells it; see `carry`."""
        self.purges: list[dict[str, Any]] = []
        self.purge_refusal: tuple[int, str, str] | None = None
        self.cached_blocks = 100
        """Free cached blocks: what a purge evicts its share of."""
        self.stats: dict[str, Any] = {}
        """Groups of docs/stats.md, as the engine core answers them; `records` is made from the next three."""
        self.rows: list[list[Any]] = []
        self.first_row = 1
        """Number of the oldest record still kept."""
        self.rows_per_read = 1000
        self.stats_queries: list[dict[str, str]] = []
        app = web.Application()
        app.router.add_get("/governor/v1/runtime", self._get)
        app.router.add_patch("/governor/v1/runtime", self._patch)
        app.router.add_post("/governor/v1/lease", self._lease)
        app.router.add_post("/governor/v1/purge", self._purge)
        app.router.add_get("/governor/v1/stats", self._get_stats)
        app.router.add_get("/metrics", self._metrics)
        self.server = TestServer(app, port=port)

    @property
    def url(self) -> str:
        return str(self.server.make_url("")).rstrip("/")

    def carry(self, name: str, value: Any, low: float, high: float) -> None:
        """Have a further knob, started with `value`."""
        knob = {"value": value, "startup": value, "min": low, "max": high, "support": "native", "reason": None}
        self.knobs[name] = knob

    def value(self, name: str) -> Any:
        """What a further knob reads."""
        return self.knobs[name]["value"]

    def restart(self) -> None:
        self.boot_id, self.generation, self.cap = "boot-b", 0, 64
        self.rows, self.first_row = [], 1
        for knob in self.knobs.values():
            knob["value"] = knob["startup"]

    def die_of_its_daemon(self) -> None:
        """The lease runs out: the fallback values, else the start-up ones."""
        fallback = self._whole_fallback()
        self.cap = self.running = fallback.pop("max_num_seqs")
        for name, value in fallback.items():
            self.knobs[name]["value"] = value
        self.generation += 1

    async def _metrics(self, _request: web.Request) -> web.Response:
        if self.metrics_status:
            return web.Response(status=self.metrics_status)
        if self.metrics_answer is not None:
            return self.metrics_answer()
        self.finished += 10
        return web.Response(text=METRICS.format(running=self.running, waiting=self.waiting, finished=self.finished))

    async def _get(self, _request: web.Request) -> web.Response:
        return self._answer()

    async def _patch(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.patches.append(body)
        self.on_patch(body)
        if (body["boot_id"], body["generation"]) != (self.boot_id, self.generation):
            return self._refuse(412, "stale", "another boot or generation is current")
        if refused := self.refuses & set(body["knobs"]):
            return self._refuse(422, "out_of_bounds", f"{min(refused)} is out of bounds")
        if not self.ignore_patches:
            wanted = dict(body["knobs"])
            if "max_num_seqs" in wanted:
                self.cap = self.running = wanted.pop("max_num_seqs")
            for name, value in wanted.items():
                self.knobs[name]["value"] = self.knobs[name]["startup"] if value is None else value
            self.generation += 1
        if self.drop_answers and request.transport is not None:
            request.transport.abort()
        return self._answer()

    async def _lease(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.leases.append(body)
        await self.answering.wait()
        if body["boot_id"] != self.boot_id:
            return self._refuse(412, "stale", "another boot is current")
        if not self.names_holder and "holder" in body:
            return self._refuse(422, "unknown_key", "this call does not know the key holder")
        if self.names_holder and self.holder not in (None, body["holder"], body.get("instead_of")):
            held = {"code": "held", "message": f"it is held by {self.holder}", "holder": self.holder}
            return web.json_response({"error": held}, status=409)
        self.holder = body.get("holder")
        named = body.get("fallback", self.fallback)
        low = any(name in self.knobs and value < self.knobs[name]["min"] for name, value in named.items() if value)
        if low or named.get("max_num_seqs", 0) > self.startup:
            return self._refuse(422, "out_of_bounds", "the fallback is not within the envelope")
        self.fallback = named
        return self._answer()

    async def _purge(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.purges.append(body)
        if body["boot_id"] != self.boot_id:
            return self._refuse(412, "stale", "another boot is current")
        if self.purge_refusal is not None:
            return self._refuse(*self.purge_refusal)
        blocks = int(self.cached_blocks * body["ratio"])
        self.cached_blocks -= blocks
        last = {"number": len(self.purges), "ratio": body["ratio"], "preempted": body.get("preempt", 0), "done": True}
        return self._answer(last | {"failed": None, "blocks": blocks})

    def _whole_fallback(self) -> dict[str, Any]:
        startup = {name: knob["startup"] for name, knob in self.knobs.items()}
        return {"max_num_seqs": self.startup} | startup | self.fallback

    async def _get_stats(self, request: web.Request) -> web.Response:
        self.stats_queries.append(dict(request.query))
        if self.status:
            return self._refuse(self.status, "engine_unavailable", "the engine core did not answer in time")
        known = dict(part.split(":") for part in request.query.get("since", "").split(",") if part)
        since = max(int(known.get(self.boot_id, 0)), self.first_row - 1)
        last = min(since + self.rows_per_read, self.first_row - 1 + len(self.rows))
        records = {
            "fields": list(RECORD_FIELDS),
            "first": self.first_row,
            "next": last,
            "more": last < self.first_row - 1 + len(self.rows),
            "rows": self.rows[since - self.first_row + 1 : last - self.first_row + 1],
        }
        identity = {"engine": 0, "boot_id": self.boot_id, "generation": self.generation, "degraded": []}
        return web.json_response({"engines": [{**identity, "records": records, **self.stats}]})

    @staticmethod
    def _refuse(status: int, code: str, message: str) -> web.Response:
        return web.json_response({"error": {"code": code, "message": message}}, status=status)

    def _answer(self, purged: dict[str, Any] | None = None) -> web.Response:
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
            },
            **self.knobs,
        }
        core = {
            "engine": 0,
            "boot_id": self.boot_id,
            "generation": self.generation,
            "running": self.running,
            "waiting": self.waiting,
            "degraded": self.degraded,
            "knobs": knobs,
            "lease": {
                "held": True,
                **({"holder": self.holder} if self.names_holder else {}),
                "remaining_s": 14.0,
                "fallback": self._whole_fallback(),
                "expirations": 0,
            },
            "purge": {"support": "native", "reason": None, "last": purged},
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
