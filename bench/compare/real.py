"""`bench compare --clock real`: the finalists in real time, behind vLLM's own API server, with the daemon as a process.

Belongs here: the server, who steers it, and the figures that requests alone give. Never: arguments of a person
(command.py), the virtual clock (measure.py).

Real: everything but the GPU; NVML is the scripted library, fed by the emulated GPU. A fixed setting is what vLLM is
started with; who steers begins at the setting that the virtual clock begins at. Runs with the daemon's interpreter.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from bench.compare import contenders, interval
from bench.compare.asking import Asked, ask_all
from bench.compare.contenders import Contender
from bench.compare.options import add_options
from bench.compare.run import TICK_S, Job
from bench.compare.scenario import SETTLE_S, Scenario
from bench.compare.scenarios import on
from bench.compare.score import good, percentile, rate
from bench.demo.daemon import Daemon, DaemonError
from bench.emulated_gpu import presets
from bench.emulated_gpu.plugin_path import PLUGIN_NAME, write_plugin
from bench.emulated_nvml.build import NoLibrary, build
from bench.emulated_nvml.script import VARIABLE
from bench.footprint.run import met
from bench.sensors.exposition import with_bound
from bench.server import ServerError, VllmServer
from bench.server_options import VllmOptions
from bench.setup import places
from bench.virtual.workload import Ask
from controller.engine.client import EngineClient
from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS
from domain.slo import Latency

EXECUTOR = "bench.emulated_gpu.executor.EmulatedGpuExecutor"
START_LEASE_S = 60.0
"""Until the daemon holds one of its own."""
LATE_S = 0.1
"""Requests that left later than this (P99): the machine was too busy, and the figures are its own."""
WARM_UP = Ask(0.0, "warm-up", tuple(range(8, 72)), 8)


def main(arguments: Sequence[str]) -> int:
    """Runs it and writes the file that `--out` names; exit code 0 when it ran, 2 for what is not known, 1
    when vLLM or the daemon cannot be started.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.compare.real")
    add_options(parser)
    options = parser.parse_args(arguments)
    try:
        gpu = presets.by_name(options.gpu)
        scenario = on(options.scenario, gpu, options.quick)
        chosen = [contenders.by_name(name) for name in options.contenders.split(",") if name]
    except ValueError as error:
        parser.error(str(error))
    if any(one.limiter is not None for one in chosen) or not chosen:
        parser.error("cannot run in real time: name --contenders, fixed settings or the daemon's; limiters are played")
    if any(phase != scenario.phases[0].objectives for phase in (one.objectives for one in scenario.phases)):
        parser.error(f"cannot run {scenario.name} in real time: its objectives change")
    if any(phase.speed != 1.0 for phase in scenario.phases):
        parser.error(f"cannot run {scenario.name} in real time: its device changes speed")
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    jobs = [Job(scenario, gpu, one, seed) for one in chosen for seed in seeds]
    try:
        found = [asyncio.run(_figures(job)) for job in jobs]
    except (ServerError, DaemonError, NoLibrary) as error:
        print(error, file=sys.stderr)
        return 1
    by_name = {one.name: found[n * len(seeds) : (n + 1) * len(seeds)] for n, one in enumerate(chosen)}
    document = {
        "scenario": scenario.name,
        "what": scenario.what,
        "gpu": gpu.name,
        "clock": "real",
        "quick": options.quick,
        "seeds": list(seeds),
        "contenders": {name: _summary(runs) for name, runs in by_name.items()},
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document), encoding="utf-8")
    return 0


async def _figures(job: Job) -> dict[str, float | None]:
    found = await _run(job)
    told = figures(job.scenario, found, len(list(job.scenario.asks(job.seed))))
    late = " (the machine was too busy)" if (told["late_p99_s"] or 0.0) > LATE_S else ""
    print(
        f"{job.scenario.name} seed {job.seed:<5} {job.contender.name:<16} {told['goodput_after_30s']:6.3f} good "
        f"requests/s, {told['good_ratio']:6.1%} of those asked{late}",
        file=sys.stderr,
        flush=True,
    )
    return told


async def _run(job: Job) -> Asked:
    with tempfile.TemporaryDirectory(prefix="bench-real-") as name:
        folder = Path(name)
        script = folder / "nvml"
        server = VllmServer(folder / "vllm", vllm_options(job, folder, script))
        async with server:
            daemon, model = Daemon(folder / "daemon", _settings(job, server, folder)), server.options.served_name
            await ask_all(server.url, model, [WARM_UP])
            try:
                if job.contender.policies is not None:
                    await _start_at(server, job.contender)
                    with _nvml(script):
                        daemon.start()
                    await met(daemon)
                return await ask_all(server.url, model, job.scenario.asks(job.seed))
            finally:
                await daemon.stop()


@contextmanager
def _nvml(script: Path) -> Iterator[None]:
    """For the daemon's process alone: vLLM is to find no GPU."""
    before = dict(os.environ)
    os.environ |= {"LD_LIBRARY_PATH": str(build().parent), VARIABLE: str(script)}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


async def _start_at(server: VllmServer, contender: Contender) -> None:
    async with aiohttp.ClientSession() as session:
        client = EngineClient(session, server.url, server.token_file, 5.0)
        knobs = {MAX_NUM_SEQS: float(contender.cap), MAX_NUM_BATCHED_TOKENS: float(contender.budget)}
        await client.set_knobs(await client.runtime(), knobs, START_LEASE_S)


def figures(scenario: Scenario, found: Asked, asked: int) -> dict[str, float | None]:
    """Named as on the virtual clock, where they mean the same."""
    kept = [one.at_s for one in found.served if good(one, scenario)]
    seconds = scenario.seconds
    return {
        "goodput": len(kept) / seconds,
        "goodput_after_30s": rate(kept, min(SETTLE_S, seconds / 2), seconds),
        "good_ratio": len(kept) / asked if asked else 1.0,
        "p99_ttft_s": percentile([one.ttft_s for one in found.served], 0.99),
        "p99_request_itl_s": percentile([one.p95_gap_s for one in found.served], 0.99),
        "p99_e2e_s": percentile([one.e2e_s for one in found.served], 0.99),
        "rejected_ratio": len(found.turned_away) / asked if asked else 0.0,
        "failed": float(found.failed),
        "late_p99_s": percentile(found.late_s, 0.99),
    }


def _summary(runs: Sequence[dict[str, float | None]]) -> dict[str, Any]:
    known = {name: [one[name] for one in runs if one[name] is not None] for name in runs[0]}
    mean = {name: interval.mean(values) if values else None for name, values in known.items()}  # type: ignore[arg-type]
    half = interval.half_width([one["goodput_after_30s"] or 0.0 for one in runs])
    return {**mean, "goodput_after_30s_half95": half, "by_seed": list(runs)}


def vllm_options(job: Job, folder: Path, script: Path) -> VllmOptions:
    """Of a vLLM on this job's emulated GPU, whose readings go to `script`."""
    scenario, gpu, contender = job.scenario, job.gpu, job.contender
    fixed = contender.policies is None
    plugins = write_plugin(folder / "plugins")
    step = {name: getattr(gpu.step, name) for name in ("base_ms", "per_token_us", "per_context_token_ns")}
    return VllmOptions(
        max_num_seqs=contender.cap if fixed else scenario.max_num_seqs,
        max_num_batched_tokens=contender.budget if fixed else scenario.max_num_batched_tokens,
        max_model_len=scenario.max_model_len,
        num_gpu_blocks=gpu.num_blocks,
        block_size=gpu.block_tokens,
        executor=EXECUTOR,
        itl_buckets_s=with_bound(Latency.ITL, scenario.phases[0].objectives.itl_s),
        extra_args=("--hf-overrides", json.dumps({"max_position_embeddings": scenario.max_model_len})),
        extra_env={
            "PYTHONPATH": os.pathsep.join(map(str, (places.PLUGIN_OVERLAY, plugins, places.ROOT))),
            "VLLM_PLUGINS": f"governor,{PLUGIN_NAME}",
            "EMULATED_GPU": json.dumps({"step": step, "card": gpu.name, "nvml_script": str(script)}),
        },
    )


def _settings(job: Job, server: VllmServer, folder: Path) -> dict[str, Any]:
    aim = job.scenario.phases[0].objectives
    return {
        "mode": "auto",
        "tick_s": TICK_S,
        "engine": {"url": server.url, "token_file": str(server.token_file)},
        "store": {"url": str(folder / "history.db")},
        "slo": {slo.latency.value: {"percentile": slo.percentile, "bound_s": slo.bound_s} for slo in aim.slos()},
        "policies": job.contender.policies or {},
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
