"""Whether the server is out of memory, read while the load runs.

`kv`: vLLM's /metrics. vLLM takes its GPU memory at the start, so what runs out is the KV cache: it is out when 99 % of
its blocks hold running requests, or a request was thrown out of it (preempted). `nvml`: the driver of this machine's
GPUs, for other servers: it is out when 99 % of a card's memory is in use. `none`: not watched, and the report says so.
Belongs here: those readings. Never: stopping the test.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

import requests

FULL_RATIO = 0.99
READ_S = 2.0
"""For one answer of /metrics."""
USAGE = re.compile(r"^vllm:(?:kv|gpu)_cache_usage_perc(?:\{[^}]*\})? (\S+)", re.MULTILINE)
"""Two names: the second is what older versions of vLLM call it."""
PREEMPTIONS = re.compile(r"^vllm:num_preemptions_total(?:\{[^}]*\})? (\S+)", re.MULTILINE)
KINDS = ("kv", "nvml", "none")


class MemoryUnknown(Exception):
    """It cannot be read; the text is a clause."""


@dataclass(frozen=True, slots=True)
class Reading:
    """`out`: why memory is out, as a clause; None: it is not."""

    usage_ratio: float
    out: str | None


class Memory(Protocol):
    """Where it is read."""

    def read(self) -> Reading:
        """Now. Raises MemoryUnknown."""
        ...


class KvCache:
    """Of a vLLM. Preemptions count from the first reading on."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self._url, self._headers = f"{url}/metrics", headers
        self._preempted: float | None = None

    def read(self) -> Reading:
        """The fullest engine's, and preemptions since the reading before. Raises MemoryUnknown."""
        try:
            answer = requests.get(self._url, headers=self._headers, timeout=READ_S)
            answer.raise_for_status()
            text = answer.text
        except requests.RequestException as error:
            raise MemoryUnknown(f"{self._url} cannot be read ({type(error).__name__})") from error
        return self.take(text)

    def take(self, text: str) -> Reading:
        """The same from the text. Raises MemoryUnknown."""
        usages = [float(value) for value in USAGE.findall(text)]
        if not usages:
            raise MemoryUnknown(f"{self._url} has no vllm:kv_cache_usage_perc")
        usage = max(usages)
        counted = [float(value) for value in PREEMPTIONS.findall(text)]
        before, self._preempted = self._preempted, sum(counted) if counted else None
        if before is not None and self._preempted is not None and self._preempted > before:
            return Reading(usage, f"{self._preempted - before:.0f} requests were thrown out of the KV cache")
        return Reading(usage, f"{usage:.0%} of the KV cache's blocks are in use" if usage >= FULL_RATIO else None)


class Nvml:
    """Of all GPUs of this machine; needs nvidia-ml-py."""

    def __init__(self) -> None:
        self._begun = False

    def read(self) -> Reading:
        """The fullest card's. Raises MemoryUnknown."""
        try:
            import pynvml
        except ImportError as error:
            raise MemoryUnknown("nvidia-ml-py is not installed") from error
        try:
            if not self._begun:
                pynvml.nvmlInit()
                self._begun = True
            handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
            memories = [pynvml.nvmlDeviceGetMemoryInfo(handle) for handle in handles]
        except pynvml.NVMLError as error:
            raise MemoryUnknown(f"NVML does not answer ({error})") from error
        if not memories:
            raise MemoryUnknown("NVML sees no GPU")
        usage = max(float(memory.used / memory.total) for memory in memories)
        return Reading(usage, f"{usage:.0%} of a GPU's memory is in use" if usage >= FULL_RATIO else None)


def source(kind: str, url: str, headers: dict[str, str]) -> Memory | None:
    """The one of this name; None: not watched."""
    if kind == "none":
        return None
    return KvCache(url, headers) if kind == "kv" else Nvml()
