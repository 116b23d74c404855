"""The same comparison on real execution: a tiny model on this machine's CPU, beside its emulation on the virtual clock.

Belongs here: that load, how the emulated twin is fitted, whether the two order the contenders alike. Never: a run.

The CPU's runs are timed by the work of their own process, on one thread. The twin is a step model fitted to the steps
of one run on the CPU, of a load that nobody is scored on. Rates and objectives follow from it, so that the load is as
hard on a slow machine as on a fast one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bench.compare import contenders, interval
from bench.compare.lengths import RAG, SHORT, Shape
from bench.compare.pool import Pool
from bench.compare.run import Job, run
from bench.compare.scenario import Objectives, Phase, Scenario
from bench.compare.score import Score
from bench.compare.workload import Stream
from bench.emulated_gpu.power import PowerModel
from bench.emulated_gpu.presets import Preset
from bench.emulated_gpu.step_model import StepModel
from bench.virtual.device import Step

CONTENDERS = (
    *(f"fixed-{cap}-{budget}" for cap, budget in ((8, 512), (32, 512), (128, 256), (128, 512))),
    *("vllm_default", "seed", "model"),
)
"""Without larger budgets: steps of over 2,048 tokens do not come up, so they would be vLLM's default once more."""
FIRST_GUESS = StepModel(base_ms=5.0, per_token_us=40.0, per_context_token_ns=100.0)
"""Only the load of the fitting run rests on it."""
FITTED_AT = contenders.fixed(64, 1024)
FIT_SEED = 9002
PHASE_S = 20.0
BUSY_SHARE = 0.55
"""Of the device's time that the tokens of the load take: by the emulation the contenders differ then."""
KEPT_BUDGET = 512
"""Steps of so many tokens keep the objective."""
CONTEXT_TOKENS = 8_000
"""In the cache while some tens of requests run."""
SLOWEST_SHARE = 0.02
"""Of the fitting run's steps: those in which this machine did something else."""
BLOCKS, BLOCK_TOKENS = 4096, 32
"""vLLM's attention on a CPU wants blocks of 32."""


def measure(pool: Pool, _: Preset, seeds: Sequence[int], quick: bool) -> dict[str, Any]:
    """The document. What runs beside it takes no time on the clock of the CPU's runs, but crowds its caches."""
    seconds = PHASE_S / (3.0 if quick else 1.0)
    guess = twin(FIRST_GUESS)
    device = twin(fit(run(Job(load(guess.step, seconds), guess, FITTED_AT, FIT_SEED, on_cpu=True)).device.taken))
    scenario = load(device.step, seconds)
    chosen = [contenders.by_name(name) for name in CONTENDERS]
    found: dict[bool, list[float]] = {}
    for on_cpu in (False, True):
        scores = pool.scores([Job(scenario, device, one, seed, on_cpu) for one in chosen for seed in seeds])
        found[on_cpu] = [_mean(scores[n * len(seeds) : (n + 1) * len(seeds)]) for n in range(len(chosen))]
    return {
        "table": "cpu",
        "what": scenario.what,
        "quick": quick,
        "seeds": list(seeds),
        "step": asdict(device.step),
        "itl_s": scenario.phases[0].objectives.itl_s,
        "rates": [phase.streams[0].rate for phase in scenario.phases],
        "contenders": {
            one.name: {"emulated": emulated, "cpu": real}
            for one, emulated, real in zip(chosen, found[False], found[True], strict=True)
        },
        "rank_correlation": interval.rank_correlation(found[False], found[True]),
    }


def twin(step: StepModel) -> Preset:
    """A device with such steps. It tells no power."""
    return Preset("CPU", "none", step, PowerModel(1.0, 1.0, 1.0), BLOCKS, BLOCK_TOKENS)


def load(step: StepModel, phase_s: float) -> Scenario:
    """Short questions, a burst of RAG, short questions, as hard as the step model makes it."""
    aim = Objectives(step.step_s(KEPT_BUDGET, CONTEXT_TOKENS))

    def phase(name: str, shape: Shape, burstiness: float = 1.0) -> Phase:
        tokens = shape.prompt.median + shape.answer.median
        return Phase(name, phase_s, (Stream(shape, BUSY_SHARE / step.token_s(1) / tokens, burstiness),), aim)

    return Scenario(
        "cpu",
        "short questions, a burst of RAG, short questions, on a tiny model",
        (phase("short", SHORT), phase("rag burst", RAG, 1.5), phase("short again", SHORT)),
        max_model_len=4096,
    )


def fit(taken: Sequence[Step]) -> StepModel:
    """Least squares through the steps but the slowest; no coefficient below 0."""
    import numpy as np

    steps = sorted(taken, key=lambda step: step.seconds)[: max(3, int((1.0 - SLOWEST_SHARE) * len(taken)))]
    rows = np.array([(1.0, step.tokens, step.context_tokens) for step in steps])
    base_s, token_s, context_s = np.linalg.lstsq(rows, np.array([step.seconds for step in steps]), rcond=None)[0]
    return StepModel(max(0.0, base_s * 1e3), max(1e-3, token_s * 1e6), max(0.0, context_s * 1e9))


def _mean(scores: Sequence[Score]) -> float:
    return interval.mean([one.goodput for one in scores])
