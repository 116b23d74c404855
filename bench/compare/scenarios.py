"""The scenarios by name. Belongs here: phases, rates and objectives. Never: what a contender does with them.

Rates are for an emulated A100-80G with an 8B model and scaled by the time a token takes for other cards. They were
chosen so that some fixed setting keeps the objectives, before a governor ever ran them; `docs/compare.md` says how.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bench.compare.lengths import CHAT, RAG, SHORT, SUMMARY
from bench.compare.scenario import Objectives, Phase, Scenario
from bench.compare.workload import Hot, Stream
from bench.emulated_gpu.presets import CARDS, Preset, roofline

_A100 = roofline("A100-80G", CARDS["A100-80G"])


def _shift(itl_ms: int) -> Scenario:
    aim = Objectives(itl_ms / 1e3)
    return Scenario(
        f"shift{itl_ms}",
        f"chat, then long documents among the chat, then bursts of RAG, then chat; 95 % of a request's times between "
        f"tokens within {itl_ms} ms",
        (
            Phase("chat", 150, (Stream(CHAT, 3.5),), aim),
            Phase("long", 150, (Stream(CHAT, 1.2), Stream(SUMMARY, 0.2)), aim),
            Phase("rag burst", 150, (Stream(RAG, 2.4, burstiness=1.5), Stream(CHAT, 0.6)), aim),
            Phase("chat again", 150, (Stream(CHAT, 3.5),), aim),
        ),
    )


def _daynight() -> Scenario:
    day, night = Objectives(0.055), Objectives(0.250, ttft_s=5.0)
    return Scenario(
        "daynight",
        "by day 55 ms between tokens and 2 s to the first; by night 250 ms and 5 s, and more load than the day's "
        "setting carries",
        tuple(
            Phase(name, 150, (Stream(CHAT, rate),), aim)
            for name, rate, aim in (
                ("day", 3.0, day),
                ("night", 5.4, night),
                ("day 2", 3.0, day),
                ("night 2", 5.4, night),
            )
        ),
    )


def _throttle() -> Scenario:
    aim, load = Objectives(0.080), (Stream(CHAT, 4.0),)
    return Scenario(
        "throttle",
        "steady chat within 80 ms; the GPU runs at 70 % of its speed for the middle third",
        (
            Phase("full speed", 200, load, aim),
            Phase("throttled", 200, load, aim, speed=0.7),
            Phase("full again", 200, load, aim),
        ),
    )


def _contextgrow() -> Scenario:
    steps, seconds = 10, 60
    growth = [10 ** (n / (steps - 1)) for n in range(steps)]
    return Scenario(
        "contextgrow",
        "prompts grow tenfold in ten steps, from some 400 to 4,000 tokens, as many requests as before: more than the "
        "card carries in the last two; 80 ms",
        tuple(
            Phase(f"x{longer:.1f}", seconds, (Stream(SHORT, 3.6, longer=1.5 * longer),), Objectives(0.080))
            for longer in growth
        ),
    )


def _steady() -> Scenario:
    return Scenario(
        "steady",
        "chat that vLLM's default setting carries with ease: 250 ms between tokens",
        (Phase("steady", 300, (Stream(CHAT, 3.0),), Objectives(0.250)),),
    )


def _flash() -> Scenario:
    aim, calm = Objectives(0.080), Stream(SHORT, 6.0)
    return Scenario(
        "flash",
        "four times the load for 60 s, more than vLLM's default carries; 80 ms, 2 s to the first token",
        (
            Phase("before", 120, (calm,), aim),
            Phase("crowd", 60, (replace(calm, rate=4 * calm.rate),), aim),
            Phase("after", 120, (calm,), aim),
        ),
    )


def _mixed() -> Scenario:
    hot = Hot(share=0.35, prompts=8, tokens=512)
    return Scenario(
        "mixed",
        "the seeds' mixed load: 35 % of the requests repeat one of eight prompts, the rest never comes again; 80 ms",
        (Phase("mixed", 300, (Stream(SHORT, 10.0, hot=hot),), Objectives(0.080)),),
    )


def _idle() -> Scenario:
    return Scenario(
        "idle", "one short request every 20 s", (Phase("idle", 300, (Stream(SHORT, 0.05),), Objectives(0.080)),)
    )


def _day() -> Scenario:
    rates = (0.8, 0.5, 0.5, 1.0, 2.0, 3.0, 3.6, 3.4, 3.6, 3.2, 2.4, 1.4)
    return Scenario(
        "day",
        "a day in 600 s: the load of chat rises and falls sevenfold; 80 ms",
        tuple(Phase(f"{2 * n:02}:00", 50, (Stream(CHAT, rate),), Objectives(0.080)) for n, rate in enumerate(rates)),
    )


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    **{f"shift{itl_ms}": (lambda itl_ms=itl_ms: _shift(itl_ms)) for itl_ms in (55, 80, 120)},  # type: ignore[misc]
    "daynight": _daynight,
    "throttle": _throttle,
    "contextgrow": _contextgrow,
    "steady": _steady,
    "flash": _flash,
    "mixed": _mixed,
    "idle": _idle,
    "day": _day,
}


def on(name: str, gpu: Preset, quick: bool = False) -> Scenario:
    """The scenario of that name at rates that fit the card; `quick` has phases of a third. ValueError: no such name."""
    if name not in SCENARIOS:
        raise ValueError(f"cannot run scenario {name}: known are {', '.join(SCENARIOS)}")
    scenario, scale = SCENARIOS[name](), _A100.step.per_token_us / gpu.step.per_token_us
    return replace(scenario, phases=tuple(_fitted(phase, scale, 3.0 if quick else 1.0) for phase in scenario.phases))


def _fitted(phase: Phase, scale: float, shorter: float) -> Phase:
    streams = tuple(replace(stream, rate=stream.rate * scale) for stream in phase.streams)
    return replace(phase, streams=streams, seconds=phase.seconds / shorter)
