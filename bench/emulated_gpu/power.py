"""What the emulated GPU draws: idle, reading memory, computing. The arithmetic belongs here; a card's figures never do.

A straight line between three powers. Published measurements of serving draw the same picture: prefill, bound by
arithmetic, runs near the board's limit; decoding, bound by memory, well below it (Patel et al., "Characterizing Power
Management Opportunities for LLMs in the Cloud", ASPLOS 2024; arXiv 2605.11999 has 137 to 300 W of 700 W for decoding
on an H200). Clocks, temperature and the limit's own effect on speed are left out.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PowerModel:
    """Watts of one card."""

    idle_w: float
    """Loaded, at work on nothing."""
    memory_w: float
    """While it reads weights and KV cache."""
    cap_w: float
    """While it computes tokens: the board's limit."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.idle_w <= self.memory_w <= self.cap_w:
            raise ValueError(f"cannot use {self}: idle_w <= memory_w <= cap_w must hold, none below 0")

    def energy_j(self, seconds: float, busy_s: float, computing_s: float) -> float:
        """Joules over `seconds`, of which `busy_s` were steps, of which `computing_s` were tokens' arithmetic."""
        reading_s = max(0.0, busy_s - computing_s)
        return (
            self.idle_w * max(0.0, seconds - busy_s) + self.memory_w * reading_s + self.cap_w * min(computing_s, busy_s)
        )
