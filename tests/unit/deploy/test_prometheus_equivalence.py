"""For the same metric series Prometheus and the daemon fire and resolve within one evaluation interval of each other.

Random spells around every level of every rule are seen by the daemon's own engine; what the daemon exports meanwhile is
given to the real Prometheus, which is asked for the shipped rules around each moment at which ours fired or resolved.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller.clock import Now
from controller.metrics.exposition import Exposition
from controller.metrics.observed import Observed
from controller.metrics.prometheus_rules import INTERVAL_S
from domain.alert import Rule
from domain.decision import Mode
from domain.slo import Latency, Slo
from domain.snapshot import Snapshot
from domain.view import View
from policies.alert_thresholds import CHECKS, OBJECTIVE_EXCESS, RULES, AlertsState, evaluate
from tests.alert_rules import FIRING
from tests.programs import need
from tests.views import samples

SHIPPED = Path(__file__).parents[3] / "deploy" / "prometheus" / "rules.yml"
STEPS = 160
"""Of one interval each: 40 minutes."""
SLO = Slo(Latency.E2E, percentile=95, bound_s=2.0)
COUNTED = 1_000_000.0
"""Samples of the objective: so many that noise is no matter."""
WALL = datetime(2026, 1, 2, tzinfo=UTC)


@dataclass
class Instance:
    """One daemon: what it exported at each interval, and which rules it held for firing then."""

    name: str
    exported: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    firing: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))


def levels() -> dict[str, list[float]]:
    """For each signal every level that a rule compares it with, and a value on each side of each of them."""
    found: dict[str, set[float]] = defaultdict(set)
    for rule in RULES:
        for signal, level in _compared(rule):
            found[signal].add(level)
    return {signal: _and_between(sorted(values)) for signal, values in found.items()}


def _and_between(values: list[float]) -> list[float]:
    lowest, highest = values[0] * 0.5, values[-1] * 1.5 or 1.0
    return [lowest, *values, *((low + high) / 2 for low, high in pairwise(values)), highest]


def _compared(rule: Rule) -> Iterator[tuple[str, float]]:
    signal, threshold = rule.condition.signal, rule.condition.threshold
    yield signal, threshold
    yield signal, rule.clear
    if rule.rise_over_s is not None:
        yield signal, 2 * threshold if threshold else 3.0
    for one in rule.only_while:
        yield one.signal, one.threshold


def spells(draw: random.Random, values: list[float], waits: tuple[int, ...]) -> list[float]:
    """A value a step: each lasts about as long as something that a rule waits for, a little more or a little less."""
    made: list[float] = []
    while len(made) < STEPS:
        made += [draw.choice(values)] * max(1, draw.choice(waits) + draw.choice((-1, 0, 1, 2)))
    return made[:STEPS]


def play(name: str, seed: int, tick_s: float) -> Instance:
    """Forty minutes of one daemon."""
    draw, instance, state = random.Random(seed), Instance(name), AlertsState()
    waits = tuple(round(wait / INTERVAL_S) for wait in (15.0, 30.0, 60.0, 300.0))
    series = {signal: spells(draw, values, waits) for signal, values in levels().items()}
    observed = Observed(Mode.AUTO, fresh_for_s=1e9)
    collector = CollectorRegistry()
    collector.register(Exposition(observed, lambda: Now(0.0, WALL)))
    ticks = round(INTERVAL_S / tick_s)
    for step in range(STEPS):
        told = {signal: values[step] for signal, values in series.items()}
        for tick in range(ticks):
            view = seen(step * INTERVAL_S + tick * tick_s, told)
            checks = {check: told[check] for check in CHECKS if check in told}
            state, _ = evaluate(state, view, RULES, checks)
            if tick == 0:
                observed.see(Snapshot(0.0, WALL), replace(view, now_s=0.0))
                observed.check(0.0, checks)
                export(instance, collector)
                for one in state.rules:
                    instance.firing[one.name].append(one.state is FIRING)
    return instance


def seen(now_s: float, told: dict[str, float]) -> View:
    values: dict[str, Any] = {name: value for name, value in told.items() if name not in CHECKS}
    excess = values.pop(OBJECTIVE_EXCESS)
    over = round(excess * SLO.allowed_ratio * COUNTED)
    return View(now_s, slos=(SLO,), latencies={Latency.E2E: samples(COUNTED, over, SLO.bound_s)}, **values)


def export(instance: Instance, collector: CollectorRegistry) -> None:
    for family in collector.collect():
        for sample in family.samples:
            if not sample.labels:
                instance.exported[sample.name].append(sample.value)


def questions(instance: Instance) -> Iterator[dict[str, Any]]:
    """An interval before and after each change of ours Prometheus is where ours is, and between them it stays there."""
    for rule, firing in instance.firing.items():
        selector = f'ALERTS{{alertname="{rule}", alertstate="firing", instance="{instance.name}"}}'
        changes = [step for step in range(1, STEPS) if firing[step] != firing[step - 1]]
        around = {near for step in changes for near in (step - 2, step + 1)} | {STEPS - 1}
        # Where ours changes again within an interval there is nothing that both have to agree on.
        settled = [near for near in around if len(set(firing[max(0, near - 1) : near + 2])) == 1 and 0 <= near < STEPS]
        for step in settled:
            yield _question(f"count({selector}) or vector(0)", step, float(firing[step]))
        counted = f"(sum(count_over_time({selector}[2h])) or vector(0))"
        allowed = f"abs({counted} - {sum(firing)}) <= bool {len(changes)}"
        yield _question(allowed, STEPS - 1, 1.0)


def _question(expression: str, step: int, expected: float) -> dict[str, Any]:
    return {
        "expr": expression,
        "eval_time": f"{round(step * INTERVAL_S)}s",
        "exp_samples": [{"labels": "{}", "value": expected}],
    }


@pytest.fixture(scope="module")
def instances() -> list[Instance]:
    """Daemons that look as often as Prometheus, and some that look oftener."""
    ticks_s = (INTERVAL_S,) * 8 + (5.0, 5.0, 3.0, 1.0)
    return [play(f"gpu{number}:9178", number, tick_s) for number, tick_s in enumerate(ticks_s)]


def test_the_series_make_every_rule_fire_and_resolve(instances: list[Instance]) -> None:
    for rule in RULES:
        steps = [step for one in instances for step in pairwise(one.firing[rule.name])]
        assert min(steps.count((False, True)), steps.count((True, False))) >= 3, rule.name


def test_prometheus_and_the_daemon_fire_and_resolve_within_one_interval_of_each_other(
    instances: list[Instance], tmp_path: Path
) -> None:
    promtool = need("promtool")
    asked = [question for instance in instances for question in questions(instance)]
    test = {
        "interval": f"{INTERVAL_S:g}s",
        "input_series": [
            {
                "series": f'{name}{{job="vllm-governor", instance="{instance.name}"}}',
                "values": " ".join(map(repr, values)),
            }
            for instance in instances
            for name, values in instance.exported.items()
            if len(values) == STEPS
        ],
        "promql_expr_test": asked,
    }
    path = tmp_path / "equivalence.yml"
    whole = {"rule_files": [str(SHIPPED)], "evaluation_interval": f"{INTERVAL_S:g}s", "tests": [test]}
    path.write_text(json.dumps(whole))  # JSON is YAML
    done = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[:4000]
    assert len(asked) > 1000
