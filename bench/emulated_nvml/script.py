"""Script files of the scripted NVML: what each function answers, for each card and MIG instance.

Belongs here: the file's form (see nvml.c). Never: what a certain card answers (cards.py).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

VARIABLE = "EMULATED_NVML_SCRIPT"
"""Environment variable that names the script file."""
ALL = "*"
"""In place of a function's name: every function of the card, or, in `Machine.system`, every function there is."""


def error(code: int) -> str:
    """The answer "fail with this NVML code"."""
    return f"!{code}"


def hang(seconds: float, then: str = "!10") -> str:
    """The answer `then` after so many seconds, or another one as soon as the script is written anew."""
    return f"~{seconds:g} {then}"


def numbers(*values: float) -> str:
    """An answer of one or several numbers, in the order that nvml.c names."""
    return " ".join(f"{value:.12g}" if isinstance(value, float) else str(value) for value in values)


@dataclass
class Instance:
    """A MIG instance: answers by the name of NVML's function, as `nvmlDeviceGetClockInfo.1` for one argument."""

    answers: dict[str, str]


@dataclass
class Card(Instance):
    """A GPU. A function without an answer is "not supported"."""

    instances: list[Instance] = field(default_factory=list)

    @property
    def uuid(self) -> str:
        return self.answers["nvmlDeviceGetUUID"]


@dataclass
class Machine:
    """All that the library answers. `system` is what belongs to no device."""

    cards: list[Card]
    system: dict[str, str] = field(
        default_factory=lambda: {
            "nvmlSystemGetDriverVersion": "570.133.20",
            "nvmlSystemGetNVMLVersion": "12.570.133.20",
        }
    )

    def text(self) -> str:
        """The script."""
        parts = [_section("system", self.system)]
        for card in self.cards:
            parts.append(_section("gpu", card.answers))
            parts += [_section("mig", instance.answers) for instance in card.instances]
        return "\n".join(parts)

    def write(self, path: Path) -> None:
        """Write the script; a library that reads it meanwhile finds the old or the new one, never a half."""
        fresh = path.with_name(path.name + ".new")
        fresh.write_text(self.text(), encoding="ascii")
        os.replace(fresh, path)


def _section(kind: str, answers: dict[str, str]) -> str:
    return "".join([f"[{kind}]\n", *(f"{name} = {answer}\n" for name, answer in answers.items())])
