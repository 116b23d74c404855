"""The runs of one comparison, and their JSON. Belongs here: what is run in which order. Never: drawing, a goal.

Runs where vLLM is installed. First the grid of fixed settings on the search's seed, then the best of them, the oracle
and everybody else on the scoring seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from bench.compare import batching, contenders, cpu, interval, loads, search
from bench.compare.contenders import BUDGETS, CAPS, STEERED, Contender
from bench.compare.options import add_options
from bench.compare.pool import Pool
from bench.compare.run import Job
from bench.compare.scenario import Scenario
from bench.compare.scenarios import on
from bench.compare.score import Score
from bench.compare.workload import fingerprint
from bench.emulated_gpu import presets
from bench.emulated_gpu.presets import Preset

OURS = "model"
_TABLES = {"batching": batching.measure, "load": loads.measure, "cpu": cpu.measure}


def main(arguments: Sequence[str]) -> int:
    """Runs it and writes the file that `--out` names; exit code 0 when it ran, 2 for what is not known."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare")
    add_options(parser)
    options = parser.parse_args(arguments)
    try:
        gpu = presets.by_name(options.gpu)
        scenario = on(options.scenario, gpu, options.quick)
        chosen = [contenders.by_name(name) for name in options.contenders.split(",") if name] or None
    except ValueError as error:
        parser.error(str(error))
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    if options.table is not None:
        with Pool(_told) as pool:
            document = _TABLES[options.table](pool, gpu, seeds, options.quick)
    else:
        document = compare(scenario, gpu, seeds, chosen, options.quick)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document), encoding="utf-8")
    return 0


def compare(
    scenario: Scenario, gpu: Preset, seeds: Sequence[int], chosen: Sequence[Contender] | None, quick: bool
) -> dict[str, Any]:
    """The document of one comparison. `chosen` None: everybody, with the grid and the oracle."""
    with Pool(_told) as pool:
        found: search.Grid = {}
        entrants = list(chosen or ())
        if chosen is None:
            found = search.grid(
                pool,
                scenario,
                gpu,
                search.QUICK_CAPS if quick else CAPS,
                search.QUICK_BUDGETS if quick else BUDGETS,
            )
            entrants = [*search.finalists(found), search.oracle(found, scenario), *STEERED.values()]
        jobs = [Job(scenario, gpu, one, seed) for one in entrants for seed in seeds]
        scores = pool.scores(jobs)
    by_name = {one.name: scores[place * len(seeds) : (place + 1) * len(seeds)] for place, one in enumerate(entrants)}
    document = {
        "scenario": scenario.name,
        "what": scenario.what,
        "gpu": gpu.name,
        "clock": "virtual",
        "quick": quick,
        "seeds": list(seeds),
        "search_seed": search.SEARCH_SEED if found else None,
        "envelope": {
            "max_num_seqs": scenario.max_num_seqs,
            "max_num_batched_tokens": scenario.max_num_batched_tokens,
            "max_model_len": scenario.max_model_len,
            "num_blocks": gpu.num_blocks,
        },
        "phases": [_phase(begin_s, phase) for begin_s, phase in scenario.begins()],
        "workload_sha256": {str(seed): fingerprint(scenario.asks(seed)) for seed in seeds},
        "contenders": {name: _summary(runs) for name, runs in by_name.items()},
        "starts": {one.name: _start(one) for one in entrants},
        "grid": [
            {"cap": cap, "budget": budget, "goodput_after_30s": score.goodput_after_30s, "good_ratio": score.good_ratio}
            for (cap, budget), score in sorted(found.items())
        ],
    }
    return {**document, **_names(by_name), "ratios": _ratios(by_name)}


def _told(job: Job, score: Score) -> None:
    print(
        f"{job.scenario.name} seed {job.seed:<5} {job.contender.name:<16} "
        f"{score.goodput_after_30s:6.3f} good requests/s, {score.good_ratio:6.1%} of those asked",
        file=sys.stderr,
        flush=True,
    )


def _summary(runs: Sequence[Score]) -> dict[str, Any]:
    """Means over the seeds, the interval of the goodput, and each seed's own figures."""
    each = [run.to_json() for run in runs]
    mean = {name: _mean([one[name] for one in each]) for name in each[0]}
    goodput = [run.goodput_after_30s for run in runs]
    return {**mean, "goodput_after_30s_half95": interval.half_width(goodput), "by_seed": each}


def _mean(values: Sequence[Any]) -> Any:
    if isinstance(values[0], list):
        return [_mean(column) for column in zip(*values, strict=True)]
    known = [value for value in values if value is not None]
    return interval.mean(known) if known else None


def _names(by_name: dict[str, list[Score]]) -> dict[str, str | None]:
    fixed = [name for name in by_name if name.startswith("fixed-")]
    best = max(fixed, key=lambda name: interval.mean([run.goodput_after_30s for run in by_name[name]]), default=None)
    present = {name: name if name in by_name else None for name in ("oracle", "vllm_default", "seed")}
    return {"best_fixed": best, **present, "ours": OURS if OURS in by_name else None}


def _ratios(by_name: dict[str, list[Score]]) -> dict[str, dict[str, float | None]]:
    """Ours over each of the others, seed by seed."""
    if OURS not in by_name:
        return {}
    ours = [run.goodput_after_30s for run in by_name[OURS]]
    found: dict[str, dict[str, float | None]] = {}
    for name, runs in by_name.items():
        ratio, half = interval.ratio(ours, [run.goodput_after_30s for run in runs])
        found[name] = {"ratio": ratio, "half95": half}
    return found


def _phase(begin_s: float, phase: Any) -> dict[str, Any]:
    streams = [
        {"shape": one.shape.name, "rate": one.rate, "burstiness": one.burstiness, "longer": one.longer}
        for one in phase.streams
    ]
    aim = phase.objectives
    return {
        "name": phase.name,
        "begin_s": begin_s,
        "seconds": phase.seconds,
        "itl_s": aim.itl_s,
        "ttft_s": aim.ttft_s,
        "speed": phase.speed,
        "streams": streams,
    }


def _start(one: Contender) -> dict[str, Any]:
    return {"cap": one.cap, "budget": one.budget, "limiter": one.limiter, "switches": [list(s) for s in one.switches]}
