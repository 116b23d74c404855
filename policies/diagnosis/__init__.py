"""diagnosis: what is wrong, by name, with its evidence and what is or can be done.

Belongs here: the seeds' fault trees and the engine's own states (down, asleep, unseen, stuck) as rules over views.
Never: a change of a knob.
"""

from policies.diagnosis.diagnose import DiagnosisState, diagnose
from policies.diagnosis.settings import DiagnosisSettings

__all__ = ["DiagnosisSettings", "DiagnosisState", "diagnose"]
