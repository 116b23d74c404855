"""What lives in the API process, without an engine: following, the gate, the queue arithmetic, the buckets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi import FastAPI, Response
from fastapi.testclient import TestClient
from vllm_governor_engine.api import follower as following
from vllm_governor_engine.api.follower import Follower
from vllm_governor_engine.api.gate import Gate
from vllm_governor_engine.api.keep_alive import KeepAlive
from vllm_governor_engine.api.parts import Admission, Offer, Situation
from vllm_governor_engine.api.queue_limit import QueueLimit
from vllm_governor_engine.api.rate_limit import Bucket

from tests.waiting import until

# --- following ---


class Recorder:
    """A part that remembers what it was told."""

    name = "keep_alive_s"

    def __init__(self) -> None:
        self.values: list[int | None] = []
        self.situations: list[Situation] = []
        self.released = 0
        self.broken = False

    def offer(self) -> Offer:
        return Offer(startup=5, low=1, high=9)

    def apply(self, value: int | None, situation: Situation) -> None:
        if self.broken:
            raise RuntimeError("not today")
        self.values.append(value)
        self.situations.append(situation)

    def release(self) -> None:
        self.released += 1


class Core:
    """An engine core as a follower knows it."""

    def __init__(self) -> None:
        self.generation = 0
        self.wanted: dict[str, int | None] = {"keep_alive_s": None}
        self.lease_s: float | None = None
        self.alive = True
        self.reports: list[Mapping[str, Any]] = []

    async def ask(self, report: Mapping[str, Any]) -> list[dict[str, Any]]:
        if not self.alive:
            raise RuntimeError("dead")
        self.reports.append(report)
        return [
            {
                "engine": 0, "boot_id": "b", "generation": self.generation, "running": 7, "cap": 4, "fallback_cap": 64,
                "bound": None, "wanted": dict(self.wanted), "fallback": {"keep_alive_s": 3}, "lease_s": self.lease_s,
                "api_processes": 1,
            }
        ]  # fmt: skip


def test_news_is_put_in_force_and_reported_at_once_and_no_news_costs_one_call() -> None:
    core, part = Core(), Recorder()
    follower = Follower(core.ask, [part])

    async def go() -> None:
        await follower.sync()
        assert [report["applied"] for report in core.reports] == [{}, {"b": 0}]
        core.reports.clear()
        await follower.sync()
        assert len(core.reports) == 1
        core.generation, core.wanted = 1, {"keep_alive_s": 8}
        await follower.sync()
        assert [report["applied"] for report in core.reports[1:]] == [{"b": 0}, {"b": 1}]

    asyncio.run(go())
    assert part.values == [None, None, None, 8, 8]
    assert part.situations[-1].engines == [Admission(cap=4, running=7)]


def test_it_asks_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "PERIOD_S", 0.05)
    core = Core()

    async def go() -> float:
        began_s = time.monotonic()
        task = asyncio.create_task(Follower(core.ask, []).run())
        await until("it has asked four times", lambda: len(core.reports) >= 4)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - began_s

    assert asyncio.run(go()) >= (len(core.reports) - 1) * following.PERIOD_S


def test_when_no_core_answers_it_falls_back_by_itself_and_comes_back_with_the_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "DEADLINE_GRACE_S", 0.1)
    core, part = Core(), Recorder()
    core.wanted, core.lease_s = {"keep_alive_s": 8}, 1.0
    follower = Follower(core.ask, [part])

    async def go() -> None:
        await follower.sync()
        core.alive = False
        await follower.sync()
        assert part.values[-1] == 8
        await until("it falls back", lambda: part.values[-1] == 3)
        assert part.situations[-1].engines == [Admission(cap=64, running=7)]
        core.alive = True
        core.lease_s = None
        await follower.sync()
        assert part.values[-1] == 8
        await asyncio.sleep(0.3)
        assert part.values[-1] == 8  # no lease is held, nothing runs out

    asyncio.run(go())


def test_a_part_that_raises_is_released_reported_and_left_alone() -> None:
    core, part, other = Core(), Recorder(), Recorder()
    other.name = "connection_close"
    follower = Follower(core.ask, [part, other])

    async def go() -> None:
        await follower.sync()
        part.broken = True
        await follower.sync()
        await follower.sync()

    asyncio.run(go())
    assert part.released == 1
    assert core.reports[-1]["knobs"]["keep_alive_s"]["failed"]
    assert "not today" in core.reports[-1]["degraded"][0]
    assert not core.reports[-1]["knobs"]["connection_close"]["failed"]


@pytest.mark.parametrize("answer", [[], [{}], None, [{"wanted": 3}]])
def test_an_answer_that_makes_no_sense_changes_nothing(answer: Any) -> None:
    async def ask(report: Mapping[str, Any]) -> Any:
        return answer

    part = Recorder()
    asyncio.run(Follower(ask, [part]).sync())
    assert part.values == []


# --- the gate ---


@pytest.fixture
def application() -> tuple[FastAPI, Gate, Any]:
    app = FastAPI()

    def busy() -> Response:
        return Response(status_code=503)

    app.add_api_route("/v1/completions", busy, methods=["POST"])
    app.add_api_route("/health", busy)
    return app, Gate(app), TestClient(app)


def test_nothing_is_in_the_way_until_needed_and_nothing_is_left_afterwards(application: Any) -> None:
    app, gate, web = application
    web.get("/health")
    stock = app.middleware_stack
    gate.close_connections(False)
    gate.explain_refusals(False)
    assert app.middleware_stack is stock
    gate.close_connections(True)
    assert gate.placed
    gate.explain_refusals(True)
    gate.close_connections(False)
    assert gate.placed
    gate.explain_refusals(False)
    assert app.middleware_stack is stock


def test_a_refusal_gets_a_retry_after_and_is_counted(application: Any) -> None:
    _, gate, web = application
    assert "retry-after" not in web.post("/v1/completions").headers
    gate.explain_refusals(True)
    assert web.post("/v1/completions").headers["retry-after"] == "1"
    assert "retry-after" not in web.get("/health").headers
    assert gate.rejected_total == 1


def test_connections_are_closed_while_wanted(application: Any) -> None:
    _, gate, web = application
    gate.close_connections(True)
    assert web.get("/health").headers["connection"] == "close"
    gate.close_connections(False)
    assert web.get("/health").headers.get("connection") != "close"


def test_a_layer_that_somebody_put_around_ours_is_not_lost(application: Any) -> None:
    app, gate, web = application
    gate.close_connections(True)
    ours, seen = app.middleware_stack, []

    async def theirs(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])
        await ours(scope, receive, send)

    app.middleware_stack = theirs
    gate.close_connections(False)
    assert app.middleware_stack is theirs
    assert web.get("/health").headers.get("connection") != "close"
    gate.close_connections(True)
    assert web.get("/health").headers["connection"] == "close"
    assert seen


def test_an_application_it_does_not_know_is_left_alone() -> None:
    assert Gate(object()).unusable()
    assert Gate(None).unusable()


def test_where_vllm_has_no_limit_the_gate_counts_what_is_in_flight() -> None:
    app, waiting = FastAPI(), asyncio.Event()

    async def slow() -> Response:
        await waiting.wait()
        return Response(status_code=200)

    app.add_api_route("/v1/completions", slow, methods=["POST"])
    gate = Gate(app)
    client = SimpleNamespace(output_processor=SimpleNamespace(get_num_unfinished_requests=lambda: 0))
    limit = QueueLimit(client, gate)
    assert limit.offer().level == "limited"
    limit.apply(1, Situation([Admission(cap=2, running=0)]))

    async def go() -> list[int]:
        import httpx

        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as web:
            held = [asyncio.create_task(web.post("/v1/completions")) for _ in range(3)]
            await asyncio.sleep(0.05)
            over = await web.post("/v1/completions")
            assert over.headers["retry-after"] == "1"
            waiting.set()
            return [over.status_code, *(answer.status_code for answer in await asyncio.gather(*held))]

    assert asyncio.run(go()) == [503, 200, 200, 200]
    assert gate.rejected_total == 1
    limit.release()
    assert not gate.placed


# --- the queue arithmetic ---


class Client:
    """Reads what AsyncLLM reads."""

    def __init__(self, startup: int | None = None, processes: int = 1, shared: bool = False) -> None:
        self.scheduler_config = SimpleNamespace(max_num_queued_reqs=startup)
        self.admission_stats = object() if shared else None
        self._client_count = processes

    def check_admission(self) -> int | None:
        limit: int | None = self.scheduler_config.max_num_queued_reqs
        return limit


ENGINES = Situation([Admission(cap=8, running=20), Admission(cap=8, running=3)])


def test_a_queue_of_n_is_the_larger_of_cap_and_running_of_every_core_plus_n() -> None:
    client = Client()
    QueueLimit(client, Gate(FastAPI())).apply(10, ENGINES)
    assert client.check_admission() == 20 + 8 + 10


def test_where_something_else_bounds_what_runs_a_queue_of_n_is_counted_from_there() -> None:
    client = Client()
    QueueLimit(client, Gate(FastAPI())).apply(10, Situation([Admission(cap=64, running=20, bound=25)]))
    assert client.check_admission() == 25 + 10


def test_what_vllm_was_started_with_is_never_exceeded_and_comes_back() -> None:
    client = Client(startup=30)
    limit = QueueLimit(client, Gate(FastAPI()))
    assert limit.offer().high == 30
    limit.apply(25, ENGINES)
    assert client.check_admission() == 30
    limit.apply(0, ENGINES)
    assert client.check_admission() == 28
    limit.apply(None, ENGINES)
    assert client.check_admission() == 30


@pytest.mark.parametrize("shared", [False, True])
def test_several_processes_divide_the_limit_unless_they_share_a_counter(shared: bool) -> None:
    clients = [Client(processes=3, shared=shared) for _ in range(3)]
    for index, client in enumerate(clients):
        limit = QueueLimit(client, Gate(FastAPI()), index)
        assert limit.offer().level == ("native" if shared else "limited")
        limit.apply(10, ENGINES)
    limits = [client.check_admission() or 0 for client in clients]
    assert limits == ([38, 38, 38] if shared else [13, 13, 12])


def test_a_server_without_an_engine_or_an_application_has_no_queue_limit() -> None:
    assert QueueLimit(None, Gate(FastAPI())).offer().level == "off"
    assert QueueLimit(object(), Gate(None)).offer().level == "off"


# --- keep-alive ---


class Protocol:
    def __init__(self, config: Any) -> None:
        self.timeout_keep_alive = config.timeout_keep_alive


def test_keep_alive_is_off_until_vllm_serves_and_then_moves_for_new_connections() -> None:
    state = SimpleNamespace()
    knob = KeepAlive(state)
    assert knob.offer().level == "off"
    knob.apply(9, Situation())
    config = SimpleNamespace(timeout_keep_alive=5, http_protocol_class=Protocol)
    state.server = SimpleNamespace(config=config)
    assert (knob.offer().level, knob.offer().startup) == ("native", 5)
    knob.apply(60, Situation())
    assert Protocol(config).timeout_keep_alive == 60
    assert knob.offer().startup == 5
    knob.apply(None, Situation())
    assert config.timeout_keep_alive == 5


def test_a_server_that_does_not_read_the_time_has_no_such_knob() -> None:
    config = SimpleNamespace(timeout_keep_alive=5, http_protocol_class=Gate)
    assert KeepAlive(SimpleNamespace(server=SimpleNamespace(config=config))).offer().level == "off"


# --- buckets ---


def test_a_bucket_lets_a_burst_pass_and_then_its_rate(hand: Callable[[], Any]) -> None:
    clock = hand()
    bucket = Bucket(per_s=2, burst=3, clock=clock)
    assert [bucket.take() for _ in range(5)] == [0, 0, 0, 1, 1]
    clock.now += 0.5
    assert [bucket.take(), bucket.take()] == [0, 1]
    clock.now += 1000
    assert [bucket.take() for _ in range(4)] == [0, 0, 0, 1]


@pytest.fixture
def hand() -> Callable[[], Any]:
    class Hand:
        now = 50.0

        def __call__(self) -> float:
            return self.now

    return Hand


def test_a_fallback_is_a_change_however_json_spells_it() -> None:
    from vllm_governor_engine.api.caller import changes_something

    assert not changes_something("POST /lease", b'{"boot_id": "fallback", "lease_s": 5}')
    assert changes_something("POST /lease", b'{"boot_id": "b", "lease_s": 5, "\\u0066allback": {}}')
    assert changes_something("POST /lease", b"not json")
    assert changes_something("PATCH /runtime", b"{}")
