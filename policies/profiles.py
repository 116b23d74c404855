"""What the seeds' table says of the GPUs they name: the largest batch, and for one of them a starting point.

Belongs here: the rows of that table that a policy acts on, found by NVML's device name. Never: what a person has to set
up on the machine (MIG, ECC, NVLink), what is done with the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """The seeds' typical configuration for one GPU."""

    max_num_seqs: int
    hot_cache_ratio: float
    growth_factor: float
    prefill_chunk_tokens: int


@dataclass(frozen=True, slots=True)
class Profile:
    """One row of the hardware table. `max_num_seqs` is the largest batch it recommends."""

    name: str
    pattern: str
    """Found in NVML's device name, which spells memory as 80GB and joins words by blanks or hyphens."""
    max_num_seqs: int
    golden: GoldenSet | None = None


A100_80G = Profile("A100-80G", r"\bA100\b.*\b80GB\b", 64, GoldenSet(48, 0.35, 1.6, 512))
RTX_4090 = Profile("RTX 4090", r"\bRTX 4090\b(?! D| Laptop)", 32)
H100_PCIE_80G = Profile("H100-PCIE-80G", r"\bH100 PCIe\b", 128)
PROFILES = (A100_80G, RTX_4090, H100_PCIE_80G)


def of_gpu(name: str) -> Profile | None:
    """The profile of a device by NVML's name of it; None for one that the table does not know."""
    return next((profile for profile in PROFILES if re.search(profile.pattern, name, re.IGNORECASE)), None)


def of_engine(names: Iterable[str]) -> Profile | None:
    """The profile of the smallest of an engine's GPUs; None when one of them is unknown, or none was named."""
    found = [of_gpu(name) for name in names]
    known = [profile for profile in found if profile is not None]
    return min(known, key=lambda profile: profile.max_num_seqs) if known and len(known) == len(found) else None
