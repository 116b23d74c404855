"""`python -m bench.compare.generators`: one load on one server from two generators, ours and `vllm bench serve`.

Belongs here: handing both the same load, and what each says of it. Never: how ours sends (asking.py), a goal.

vLLM's replays a trace: the same moments and lengths as ours. Its prompts are its own, so neither finds the other's in
the prefix cache. They take turns, a load of its own each time. Runs with the daemon's interpreter, in real time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench import server_log
from bench.compare import contenders, interval
from bench.compare.asking import Asked, ask_all
from bench.compare.options import ROOT
from bench.compare.run import Job
from bench.compare.scenario import Scenario
from bench.compare.scenarios import on
from bench.compare.score import percentile
from bench.emulated_gpu import presets
from bench.emulated_gpu.presets import Preset
from bench.server import ServerError, VllmServer
from bench.setup import places
from bench.virtual.workload import Ask

SCENARIO = "steady"
OURS, THEIRS = "ours", "vllm bench serve"
QUANTILES = {"p50": 0.50, "p99": 0.99}
LATENCIES = {"ttft": "ttft", "itl": "itl", "e2e": "e2el"}
"""Ours, and what `vllm bench serve` calls them."""

Figures = dict[str, float | None]


def main(arguments: Sequence[str]) -> int:
    """Runs it and writes the file that `--out` names; exit code 0 when it ran, 1 when vLLM or its tool does not."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare.generators")
    parser.add_argument("--gpu", default="A100-80G", choices=presets.CARDS, help="which emulated GPU")
    parser.add_argument("--seeds", type=int, default=2, help="how many loads, each sent by both (default 2)")
    parser.add_argument("--first-seed", type=int, default=11, help="the first of them, then 1 more each (default 11)")
    parser.add_argument("--quick", action="store_true", help="a third of the time")
    parser.add_argument("--out", type=Path, default=ROOT / "var" / "bench" / "generators.json", help="for the JSON")
    options = parser.parse_args(arguments)
    gpu = presets.by_name(options.gpu)
    scenario, seeds = on(SCENARIO, gpu, options.quick), range(options.first_seed, options.first_seed + options.seeds)
    try:
        found = asyncio.run(_both(scenario, gpu, seeds))
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
    document = {
        "table": "generators",
        "gpu": gpu.name,
        "what": scenario.what,
        "quick": options.quick,
        "seeds": list(seeds),
        "generators": {name: _means(runs) for name, runs in found.items()},
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document), encoding="utf-8")
    print(json.dumps(document["generators"], indent=1))
    return 0


async def _both(scenario: Scenario, gpu: Preset, seeds: Sequence[int]) -> dict[str, list[Figures]]:
    from bench.compare.real import WARM_UP, vllm_options  # draws, which vLLM's environment cannot

    found: dict[str, list[Figures]] = {OURS: [], THEIRS: []}
    with tempfile.TemporaryDirectory(prefix="bench-generators-") as name:
        folder = Path(name)
        job = Job(scenario, gpu, contenders.STEERED["vllm_default"], seeds[0])
        async with VllmServer(folder / "vllm", vllm_options(job, folder, folder / "nvml")) as server:
            model = server.options.served_name
            await ask_all(server.url, model, [WARM_UP])
            for seed in seeds:
                asks = list(scenario.asks(seed))
                found[OURS].append(ours(await ask_all(server.url, model, asks)))
                found[THEIRS].append(await asyncio.to_thread(_theirs, server.url, model, asks, folder))
    return found


def ours(found: Asked) -> Figures:
    """Seconds; times to the first token and to the end count from when a request was due."""
    values = {
        "ttft": [one.ttft_s for one in found.served],
        "itl": found.gaps_s,
        "e2e": [one.e2e_s for one in found.served],
    }
    made = {f"{q}_{name}_s": percentile(values[name], share) for q, share in QUANTILES.items() for name in values}
    return {**made, "answered": float(len(found.served)), "late_p99_s": percentile(found.late_s, 0.99)}


def trace(asks: Iterable[Ask]) -> str:
    """As `vllm bench serve` reads one: a prompt of one chunk, which no other request has."""
    lines = (
        {
            "timestamp": ask.at_s,
            "input_length": len(ask.prompt),
            "output_length": ask.answer_tokens,
            "hash_ids": [number],
        }
        for number, ask in enumerate(asks)
    )
    return "".join(json.dumps(line) + "\n" for line in lines)


def _theirs(url: str, model: str, asks: Sequence[Ask], folder: Path) -> Figures:
    """Raises ServerError."""
    (folder / "trace.jsonl").write_text(trace(asks), encoding="utf-8")
    chunk = max(len(ask.prompt) for ask in asks)
    tool = [str(places.vllm_python().absolute()), "-m", "vllm.entrypoints.cli.main", "bench", "serve"]
    load = ["--dataset-name", "timed_trace", "--dataset-path", "trace.jsonl", "--num-prompts", str(len(asks))]
    told = ["--percentile-metrics", ",".join(LATENCIES.values()), "--metric-percentiles", "50,99"]
    ran = subprocess.run(
        [
            *(*tool, "--base-url", url, "--model", model, "--tokenizer", str(places.TINY_MODEL.absolute())),
            *(*load, "--timed-trace-chunk-hash-size", str(chunk), "--temperature", "0", "--disable-tqdm"),
            *(*told, "--save-result", "--result-filename", "theirs.json"),
        ],
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_PLUGINS": ""},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        raise ServerError(f"cannot run vllm bench serve: {server_log.cause(ran.stderr, ran.returncode)}")
    return theirs(json.loads((folder / "theirs.json").read_text(encoding="utf-8")))


def theirs(result: dict[str, float]) -> Figures:
    """Named as ours; its times count from when a request was sent."""
    made: Figures = {
        f"{q}_{name}_s": result[f"{q}_{called}_ms"] / 1e3 for q in QUANTILES for name, called in LATENCIES.items()
    }
    return {**made, "answered": float(result["completed"]), "late_p99_s": None}


def _means(runs: Sequence[Figures]) -> Figures:
    known = {name: [one[name] for one in runs if one[name] is not None] for name in runs[0]}
    return {name: interval.mean(values) if values else None for name, values in known.items()}  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
