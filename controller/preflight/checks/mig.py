"""The A100-80G is cut into MIG instances, as the seeds' table asks.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight.looking import cards_of
from controller.preflight.result import NOT_APPLICABLE, PASS, UNKNOWN, WARN, Check, Found, NotKnown
from controller.preflight.surroundings import Surroundings
from policies.profiles import A100_80G


def _look(around: Surroundings) -> Found:
    found = cards_of(around, A100_80G)
    for card in found:
        if card.mig_enabled is None:
            raise NotKnown(
                f"NVML does not tell the MIG mode of {card.name}: {card.unknown.get('mig_enabled', 'not told')}"
            )
    off = [card for card in found if not card.mig_enabled]
    if off:
        why = (
            f"MIG is off on {len(off)} of {len(found)} A100-80G. It keeps several vLLM apart on one card; one vLLM on "
            "a whole card is faster without, and GPU utilisation is unknown with it"
        )
        return Found(WARN, why, f"sudo nvidia-smi -i {off[0].card_uuid} -mig 1")
    return Found(PASS, f"MIG is on on {len(found)} A100-80G; their utilisation is unknown, memory is the instance's")


CHECK = Check(
    "mig",
    "A100-80G: MIG is on",
    "seed 1, hardware table; field case N2",
    frozenset({PASS, WARN, NOT_APPLICABLE, UNKNOWN}),
    _look,
)
