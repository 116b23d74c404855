"""Which fixed settings are best in hindsight, and which the oracle takes in each phase.

Belongs here: the grid and what is read from it. Never: a run. The grid is searched on seeds of its own, so that neither
the oracle nor the finalists are scored on the load they were chosen by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bench.compare import contenders
from bench.compare.contenders import Contender
from bench.compare.pool import Pool
from bench.compare.run import Job
from bench.compare.scenario import Scenario
from bench.compare.score import Score
from bench.emulated_gpu.presets import Preset

SEARCH_SEED = 9001
FINALISTS = 3
QUICK_CAPS = (8, 32, 128)
QUICK_BUDGETS = (256, 512, 1024, 2048)
FAR_BELOW = 0.8
"""Share of the best goodput: smaller caps than one that stays below it, and that wins no phase, are not tried."""

Setting = tuple[int, int]
Grid = Mapping[Setting, Score]


def grid(pool: Pool, scenario: Scenario, gpu: Preset, caps: Iterable[int], budgets: Iterable[int]) -> Grid:
    """Each setting's score on the search's seed, down to the cap that is far too small. A cap that is never reached
    gives the run of any larger one, so runs that would be the same step by step are made once.
    """
    found: dict[Setting, Score] = {}
    for cap in sorted(caps, reverse=True):
        tried = [(cap, budget) for budget in budgets]
        for setting in tried:
            above = [score for (higher, budget), score in found.items() if budget == setting[1] and higher > cap]
            if any(score.most_running < cap for score in above):
                found[setting] = next(score for score in above if score.most_running < cap)
        missing = [setting for setting in tried if setting not in found]
        jobs = [Job(scenario, gpu, contenders.fixed(*setting), SEARCH_SEED) for setting in missing]
        found.update(zip(missing, pool.scores(jobs), strict=True))
        if _far_below([found[setting] for setting in tried], found.values()):
            break
    return found


def _far_below(some: Iterable[Score], found: Iterable[Score]) -> bool:
    """Whether the best of some is far below the best of all found, and in no phase as good."""
    best, of_some = (_bests(scores) for scores in (found, some))
    return of_some[0] < FAR_BELOW * best[0] and all(a < b for a, b in zip(of_some[1:], best[1:], strict=True))


def _bests(scores: Iterable[Score]) -> list[float]:
    """The best goodput, overall and in each phase."""
    return [
        max(column) for column in zip(*((one.goodput_after_30s, *one.phase_goodput) for one in scores), strict=True)
    ]


def finalists(found: Grid, count: int = FINALISTS) -> list[Contender]:
    """The best fixed settings over the whole scenario, best first; of those that run alike the smallest cap is not
    preferred: they are the same run, and the largest stands for them.
    """
    runs: dict[int, Setting] = {}
    for setting in sorted(found, reverse=True):
        runs.setdefault(id(found[setting]), setting)
    best = sorted(runs.values(), key=lambda setting: found[setting].goodput_after_30s, reverse=True)
    return [contenders.fixed(*setting) for setting in best[:count]]


def oracle(found: Grid, scenario: Scenario) -> Contender:
    """The best setting of each phase by the search's seed, ties to the largest."""
    switches = []
    for place, (begin_s, _) in enumerate(scenario.begins()):
        best = max(sorted(found, reverse=True), key=lambda setting: found[setting].phase_goodput[place])
        switches.append((begin_s, *best))
    return contenders.oracle(tuple(switches))
