"""All trees over one view, each cause with its hysteresis.

Belongs here: the state, what is usual, which causes are on. Never: a tree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from domain.diagnosis import Cause, Diagnosis
from domain.view import View
from policies import hysteresis
from policies.diagnosis import load, memory, state_of_engine
from policies.diagnosis.finding import Finding, Patient
from policies.diagnosis.settings import DiagnosisSettings
from policies.hysteresis import OFF, Held, Waits

DEFAULTS = DiagnosisSettings()


@dataclass(frozen=True, slots=True)
class Known:
    """One cause. While it is on, the words and numbers of the last view that showed it."""

    cause: Cause
    held: Held = OFF
    said: Diagnosis | None = None


@dataclass(frozen=True, slots=True)
class DiagnosisState:
    """Plain values; `usual_tokens_per_s` is a slow mean over the time under load."""

    boot_id: str | None = None
    causes: tuple[Known, ...] = ()
    usual_tokens_per_s: float | None = None
    usual_for_s: float = 0.0
    usual_seen_s: float | None = None


def diagnose(
    state: DiagnosisState,
    view: View,
    settings: DiagnosisSettings = DEFAULTS,
    growth_factor: float | None = None,
) -> tuple[DiagnosisState, tuple[Diagnosis, ...]]:
    """What is wrong now, the engine's own state first.

    `growth_factor` is what batch_resize was set to; None: not known. A diagnosis stays until its clear level is seen;
    what is unknown neither begins nor ends one.
    """
    boot_id = view.runtime.boot_id if view.runtime is not None else state.boot_id
    if state.boot_id is not None and boot_id != state.boot_id:
        kept = tuple(one for one in state.causes if one.cause in (Cause.BLIND, Cause.ENGINE_DOWN))
        state = DiagnosisState(causes=kept)  # another boot is another engine
    state = replace(state, boot_id=boot_id)
    usual = state.usual_tokens_per_s if state.usual_for_s >= settings.usual_least_s else None
    patient = Patient(view, settings, usual, growth_factor)
    findings = (*state_of_engine.find(patient), *memory.find(patient), *load.find(patient))
    known = {one.cause: one for one in state.causes}
    causes = tuple(_follow(known.get(one.cause, Known(one.cause)), one, view.now_s, settings) for one in findings)
    state = _learn(replace(state, causes=causes), patient)
    return state, tuple(one.said for one in causes if one.said is not None)


def _follow(known: Known, found: Finding, now_s: float, settings: DiagnosisSettings) -> Known:
    waits = Waits(
        settings.for_s if found.for_s is None else found.for_s,
        settings.clear_for_s if found.clear_for_s is None else found.clear_for_s,
    )
    held = hysteresis.step(known.held, now_s, found.begins, found.ends, waits)
    if not held.on:
        return known if known.held == held else Known(found.cause, held)
    if found.begins or known.said is None:
        said = Diagnosis(found.cause, found.sentence, dict(found.evidence), found.action)
        return Known(found.cause, held, said)
    return replace(known, held=held)


def _learn(state: DiagnosisState, patient: Patient) -> DiagnosisState:
    """The usual throughput: a mean over the time in which requests waited, so that a lull does not lower it."""
    now, view = patient.tokens_per_s, patient.view
    if now is None or view.demand is None or view.demand <= 0:
        return replace(state, usual_seen_s=None)
    if state.usual_tokens_per_s is None:
        return replace(state, usual_tokens_per_s=now, usual_seen_s=view.now_s)
    since_s = 0.0 if state.usual_seen_s is None else min(10.0, max(0.0, view.now_s - state.usual_seen_s))
    covered_s = state.usual_for_s + since_s
    share = 1.0 - math.exp(-since_s / min(patient.settings.usual_s, max(covered_s, 1.0)))
    usual = state.usual_tokens_per_s + share * (now - state.usual_tokens_per_s)
    return replace(state, usual_tokens_per_s=usual, usual_for_s=covered_s, usual_seen_s=view.now_s)
