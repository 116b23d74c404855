"""What one leaf of a fault tree says of one view.

Belongs here: the shape, and reading a view with care. Never: a tree.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from domain.decision import Evidence
from domain.diagnosis import Cause
from domain.snapshot import Source
from domain.view import View
from policies.diagnosis.settings import DiagnosisSettings


@dataclass(frozen=True, slots=True)
class Finding:
    """`begins` and `ends` None: not known now. The two times None: as the settings say for all."""

    cause: Cause
    begins: bool | None
    ends: bool | None
    sentence: str
    action: str | None
    evidence: Evidence = field(default_factory=dict)
    for_s: float | None = None
    clear_for_s: float | None = None


@dataclass(frozen=True, slots=True)
class Patient:
    """One view, what is usual for this engine, and the growth factor that batch_resize was set to."""

    view: View
    settings: DiagnosisSettings
    usual_tokens_per_s: float | None
    growth_factor: float | None

    @property
    def tokens_per_s(self) -> float | None:
        """Prompt and generated tokens a second."""
        prompt, generated = self.view.prompt_tokens_per_s, self.view.generation_tokens_per_s
        return None if prompt is None or generated is None else prompt + generated

    def fresh(self, source: Source) -> bool:
        """It gave a reading just now."""
        age_s = self.view.ages_s.get(source)
        return source not in self.view.problems and age_s is not None and age_s <= self.settings.max_age_s


def percent(value: float | None) -> str:
    """For sentences."""
    return "unknown" if value is None else f"{value:.1%}"


def figure(value: float | None, form: str = ".3g") -> str:
    """For sentences."""
    return "unknown" if value is None else format(value, form)
