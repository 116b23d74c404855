"""What several checks look at alike: the engine's GPUs and knobs, programs, small files.

Belongs here: finding it, or saying why it is not there. Never: a judgement.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from controller.preflight.result import DoesNotApply, NotKnown
from controller.preflight.surroundings import Surroundings
from controller.sensors.nvml.sensor import RELEASED
from domain.histogram import Histogram
from domain.readings.gpu import GpuReading, GpusReading
from domain.readings.vllm import VllmReading
from domain.runtime import EngineRuntime, Knob
from policies.profiles import Profile, of_engine

PROGRAM_S = 5.0
LEAST_SAMPLES = 100
"""Finished requests before a length is judged."""
GIB = 1024**3


def gpus(around: Surroundings) -> GpusReading:
    """The engine's GPUs. Raises DoesNotApply where there are none, NotKnown where they do not answer."""
    seen = around.gpus
    if seen.reading is not None:
        return seen.reading
    if seen.problem is not None or seen.absence == RELEASED:
        raise NotKnown(str(seen.problem or seen.absence))
    raise DoesNotApply(seen.absence or "no GPU is read")


def cards(around: Surroundings) -> tuple[GpuReading, ...]:
    """One reading for each physical card. Raises as `gpus`."""
    found = {device.card_uuid: device for device in reversed(gpus(around).devices)}
    if not found:
        raise NotKnown("no GPU of the engine answers: " + "; ".join(gpus(around).problems or ("none was read",)))
    return tuple(reversed(found.values()))


def cards_of(around: Surroundings, profile: Profile) -> tuple[GpuReading, ...]:
    """The cards of one kind. Raises as `gpus`, and DoesNotApply where there is none of it."""
    found = tuple(card for card in cards(around) if of_engine((card.name,)) is profile)
    if not found:
        raise DoesNotApply(f"no {profile.name} here, but {names(cards(around))}")
    return found


def profile_of(around: Surroundings) -> Profile:
    """The seeds' row for these GPUs. Raises as `gpus`, and DoesNotApply for a GPU that has none."""
    found = of_engine(card.name for card in cards(around))
    if found is None:
        raise DoesNotApply(f"the seeds' table has no row for {names(cards(around))}")
    return found


def names(several: Iterable[GpuReading]) -> str:
    """Their names, each once."""
    return ", ".join(dict.fromkeys(card.name for card in several))


def runtime(around: Surroundings) -> EngineRuntime:
    """What the plugin tells. Raises NotKnown."""
    if around.engine.runtime is None:
        raise NotKnown("the plugin does not answer (see the check plugin)")
    return around.engine.runtime


def knob(around: Surroundings, name: str) -> Knob:
    """A knob over all engine cores. Raises NotKnown without the plugin, DoesNotApply where it is off."""
    told = runtime(around)
    found = told.knob(name)
    if found is None:
        reasons = [core.knobs[name].reason for core in told.cores if name in core.knobs]
        raise DoesNotApply(f"this engine has no knob {name}: {next(filter(None, reasons), 'the plugin lists none')}")
    return found


def startup(around: Surroundings, name: str) -> float:
    """The value that vLLM was started with. Raises as `knob`."""
    value = knob(around, name).startup
    if value is None:
        raise NotKnown(f"the plugin does not tell which {name} vLLM was started with")
    return value


def reading(around: Surroundings) -> VllmReading:
    """vLLM's metrics. Raises NotKnown."""
    if around.engine.reading is None:
        raise NotKnown("vLLM's metrics cannot be read (see the check metrics)")
    return around.engine.reading


def prompts(around: Surroundings) -> Histogram:
    """Prompt lengths since vLLM's start. Raises NotKnown with too few of them."""
    found = reading(around).prompt_lengths
    if found is None or found.samples < LEAST_SAMPLES:
        samples = 0 if found is None else found.samples
        raise NotKnown(f"{samples:g} requests have finished; it takes {LEAST_SAMPLES} to judge their lengths")
    return found


def text(path: Path) -> str | None:
    """A small file of the kernel; None where it is not there. Raises NotKnown where it may not be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise NotKnown(f"{path} cannot be read: {error.strerror}") from error


def number_list(written: str) -> frozenset[int]:
    """The kernel's lists of CPUs and nodes: `0-3,8`."""
    found: set[int] = set()
    for part in filter(None, written.split(",")):
        low, _, high = part.partition("-")
        found.update(range(int(low), int(high or low) + 1))
    return frozenset(found)


def as_list(numbers: Iterable[int]) -> str:
    """The other way round."""
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in _runs(sorted(numbers)))


def _runs(ascending: list[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for place, number in enumerate(ascending, 1):
        if place == len(ascending) or ascending[place] != number + 1:
            yield ascending[start], number
            start = place


def program(around: Surroundings, name: str) -> str | None:
    """Where a program is; None: it is not installed."""
    return shutil.which(name, path=around.roots.programs)


def output(path: str, *arguments: str) -> str:
    """What a program prints. Raises NotKnown."""
    try:
        done = subprocess.run(  # noqa: S603 (a program that this list names, without a shell)
            [path, *arguments], capture_output=True, text=True, timeout=PROGRAM_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotKnown(f"{path} cannot be run: {error}") from error
    return done.stdout + done.stderr
