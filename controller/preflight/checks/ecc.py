"""ECC is off on the RTX 4090, and can be read wherever there is some.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight.looking import cards, cards_of
from controller.preflight.result import FAIL, NOT_APPLICABLE, PASS, UNKNOWN, WARN, Check, DoesNotApply, Found
from controller.preflight.surroundings import Surroundings
from controller.sensors.nvml.calls import NOT_SUPPORTED
from policies.profiles import RTX_4090


def _look(around: Surroundings) -> Found:
    for card in cards(around):
        cause = card.unknown.get("ecc_enabled")
        if card.ecc_enabled is None and cause != NOT_SUPPORTED:
            return Found(
                FAIL, f"ECC of {card.name} cannot be read: {cause}", f"nvidia-smi -i {card.card_uuid} -q -d ECC"
            )
    found = [card for card in cards_of(around, RTX_4090) if card.ecc_enabled is not None]
    if not found:
        raise DoesNotApply("these GPUs have no ECC")
    on = [card for card in found if card.ecc_enabled]
    if on:
        cure = f"sudo nvidia-smi -i {on[0].card_uuid} --ecc-config=0 && sudo reboot"
        return Found(WARN, f"ECC is on on {len(on)} of {len(found)} RTX 4090: memory is slower and smaller", cure)
    return Found(PASS, f"ECC is off on {len(found)} RTX 4090")


CHECK = Check(
    "ecc",
    "RTX 4090: ECC is off; elsewhere its mode can be read",
    "seed 1, hardware table; field case S5",
    frozenset({PASS, WARN, FAIL, NOT_APPLICABLE, UNKNOWN}),
    _look,
)
