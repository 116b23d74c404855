"""What the entries of the ledger come to: figures of a period or of a setting, and what they cost at a tariff.

Belongs here: the formulas of docs/cost.md. Never: reading the ledger, how a figure is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from domain.ledger import EnergySource, LedgerEntry

J_PER_KWH = 3.6e6
BYTES_PER_GB = 1e9
S_PER_HOUR = 3600.0

Quantity = Callable[[LedgerEntry], float | None]


@dataclass(frozen=True, slots=True)
class Tariff:
    """Prices in `currency`; None: not known, and that line is left out of every cost."""

    currency: str
    per_kwh: float | None = None
    per_gpu_hour: float | None = None
    per_network_gb: float | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, or why there is none."""

    value: float | None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """What entries come to; the formulas are in docs/cost.md. GB are 10^9 bytes."""

    measured_s: float
    gap_s: float
    coverage_ratio: Figure
    """Measured time over the period, over all nodes that wrote."""
    energy_coverage_ratio: Figure
    """The same of the time in which the energy is known."""
    energy_source: str | None
    """`counter`, `power`, or both; None: not known."""
    memory_gb: Figure
    """Mean over the time, summed over nodes."""
    gpu_hours: Figure
    energy_cost: Figure
    gpu_cost: Figure
    network_cost: Figure
    total_cost: Figure
    cost_per_100k_requests: Figure
    cost_per_1k_requests: Figure
    cost_per_million_generated: Figure
    cost_per_million_tokens: Figure
    energy_kwh: Figure
    idle_kwh: Figure
    network_gb: Figure
    requests: Figure
    prompt_tokens: Figure
    generation_tokens: Figure
    joules_per_token: Figure
    requests_per_joule: Figure
    """Which is QPS over W."""
    reuse_ratio: Figure
    """Prefix-cache hits over lookups, in tokens."""


NO_ENERGY = "no GPU of the engine said what it used"
NO_GPUS = "no GPU of the engine was read"
NO_BYTES = "vLLM's API server did not count what it sent"
NO_VLLM = "vLLM's counters were not read"
NO_REQUESTS = "no request ended"
NO_TOKENS = "no token was generated"
NO_CACHE = "the prefix cache is off, or nothing was looked up"


def _field(name: str) -> Quantity:
    return lambda entry: getattr(entry, name)


ENERGY, IDLE_ENERGY, GPUS, MEMORY = map(_field, ("energy_j", "idle_energy_j", "gpu_s", "memory_byte_s"))
BYTES, REQUESTS, HITS, LOOKUPS = map(_field, ("response_bytes", "requests", "cache_hits", "cache_queries"))
PROMPT, GENERATED = map(_field, ("prompt_tokens", "generation_tokens"))


def _tokens(entry: LedgerEntry) -> float | None:
    if entry.prompt_tokens is None or entry.generation_tokens is None:
        return None
    return entry.prompt_tokens + entry.generation_tokens


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that costs: how much of it, in what unit, at what price."""

    quantity: Quantity
    per_unit: float
    price: float | None
    key: str
    why: str
    """Why the quantity is not known, when it is not."""


def lines(tariff: Tariff) -> tuple[Line, Line, Line]:
    """Energy, GPUs, network."""
    return (
        Line(ENERGY, J_PER_KWH, tariff.per_kwh, "per_kwh", NO_ENERGY),
        Line(GPUS, S_PER_HOUR, tariff.per_gpu_hour, "per_gpu_hour", NO_GPUS),
        Line(BYTES, BYTES_PER_GB, tariff.per_network_gb, "per_network_gb", NO_BYTES),
    )


def figures(entries: Iterable[LedgerEntry], period_s: float, tariff: Tariff) -> Figures:
    """Of all of these, which lie in a period of that length."""
    counted = [entry for entry in entries if entry.seconds > 0 or entry.gap_s > 0]
    nodes = len({entry.node for entry in counted}) or 1
    measured_s = sum(entry.seconds for entry in counted)
    metered_s = sum(entry.seconds for entry in counted if entry.energy_j is not None)
    whole_s = period_s * nodes
    costs = [_cost(counted, line) for line in lines(tariff)]
    priced = [line for line in lines(tariff) if line.price is not None]

    def each(unit: Quantity, size: float, why: str) -> Figure:
        return _cost_per(counted, priced, unit, size, why)

    return Figures(
        measured_s=measured_s,
        gap_s=sum(entry.gap_s for entry in counted),
        coverage_ratio=_over(measured_s, whole_s, "the period has no length"),
        energy_coverage_ratio=_over(metered_s, whole_s, "the period has no length"),
        energy_source=_source(counted),
        memory_gb=_memory_gb(counted),
        gpu_hours=_total(counted, GPUS, S_PER_HOUR, NO_GPUS),
        energy_cost=costs[0],
        gpu_cost=costs[1],
        network_cost=costs[2],
        total_cost=_total_cost(costs, priced, tariff),
        cost_per_100k_requests=each(REQUESTS, 100_000, NO_REQUESTS),
        cost_per_1k_requests=each(REQUESTS, 1_000, NO_REQUESTS),
        cost_per_million_generated=each(GENERATED, 1e6, NO_TOKENS),
        cost_per_million_tokens=each(_tokens, 1e6, NO_TOKENS),
        energy_kwh=_total(counted, ENERGY, J_PER_KWH, NO_ENERGY),
        idle_kwh=_total(counted, IDLE_ENERGY, J_PER_KWH, f"{NO_ENERGY}, or {NO_VLLM}"),
        network_gb=_total(counted, BYTES, BYTES_PER_GB, NO_BYTES),
        requests=_total(counted, REQUESTS, 1, NO_VLLM),
        prompt_tokens=_total(counted, PROMPT, 1, NO_VLLM),
        generation_tokens=_total(counted, GENERATED, 1, NO_VLLM),
        joules_per_token=_ratio(counted, ENERGY, GENERATED, NO_ENERGY, NO_TOKENS),
        requests_per_joule=_ratio(counted, REQUESTS, ENERGY, NO_VLLM, NO_ENERGY),
        reuse_ratio=_ratio(counted, HITS, LOOKUPS, NO_CACHE, NO_CACHE),
    )


def _sums(entries: Sequence[LedgerEntry], *quantities: Quantity) -> list[float] | None:
    """Of several quantities over the entries that know all of them; None when no entry does."""
    rows = [[quantity(entry) for quantity in quantities] for entry in entries if entry.seconds > 0]
    whole = [[value for value in row if value is not None] for row in rows if None not in row]
    return [sum(column) for column in zip(*whole, strict=True)] if whole else None


def _over(part: float, whole: float, why: str) -> Figure:
    return Figure(part / whole) if whole > 0 else Figure(None, why)


def _total(entries: Sequence[LedgerEntry], quantity: Quantity, unit: float, why: str) -> Figure:
    sums = _sums(entries, quantity)
    return Figure(None, why) if sums is None else Figure(sums[0] / unit)


def _ratio(entries: Sequence[LedgerEntry], part: Quantity, whole: Quantity, no_part: str, no_whole: str) -> Figure:
    """Over the entries that know both, so that neither counts time which the other does not."""
    sums = _sums(entries, part, whole)
    if sums is None:
        return Figure(None, no_part if _sums(entries, part) is None else no_whole)
    return _over(sums[0], sums[1], no_whole)


def _memory_gb(entries: Sequence[LedgerEntry]) -> Figure:
    total = 0.0
    found = False
    for node in {entry.node for entry in entries}:
        own = _sums([entry for entry in entries if entry.node == node], MEMORY, lambda entry: entry.seconds)
        if own is not None:
            found = True
            total += own[0] / own[1] / BYTES_PER_GB
    return Figure(total) if found else Figure(None, NO_GPUS)


def _cost(entries: Sequence[LedgerEntry], line: Line) -> Figure:
    if line.price is None:
        return Figure(None, f"there is no tariff.{line.key}")
    used = _total(entries, line.quantity, line.per_unit, line.why)
    return used if used.value is None else Figure(used.value * line.price)


def _total_cost(costs: Sequence[Figure], priced: Sequence[Line], tariff: Tariff) -> Figure:
    """Of the lines that have a price, when all of them are known."""
    if not priced:
        return Figure(None, "there is no tariff")
    asked = [cost for cost, line in zip(costs, lines(tariff), strict=True) if line.price is not None]
    values = [cost.value for cost in asked if cost.value is not None]
    if len(values) < len(asked):
        return Figure(None, next(cost.why for cost in asked if cost.value is None))
    return Figure(sum(values))


def _cost_per(entries: Sequence[LedgerEntry], priced: Sequence[Line], unit: Quantity, size: float, why: str) -> Figure:
    """Each line over the entries that know it and the unit: where the energy is known half of the time, half of the
    requests bear it.
    """
    if not priced:
        return Figure(None, "there is no tariff")
    total = 0.0
    for line in priced:
        one = _ratio(entries, line.quantity, unit, line.why, why)
        if one.value is None or line.price is None:
            return one
        total += one.value / line.per_unit * line.price * size
    return Figure(total)


def _source(entries: Sequence[LedgerEntry]) -> str | None:
    found = {entry.energy_source for entry in entries if entry.energy_j is not None}
    return " and ".join(sorted(found - {EnergySource.NONE})) or None
