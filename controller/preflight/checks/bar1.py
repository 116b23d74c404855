"""BAR1 is as large as the second seed asks.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight.looking import cards
from controller.preflight.result import FAIL, NOT_APPLICABLE, PASS, UNKNOWN, Check, DoesNotApply, Found, NotKnown
from controller.preflight.surroundings import Surroundings
from controller.sensors.nvml.calls import NOT_SUPPORTED

LEAST_MIB = 256
MIB = 1024 * 1024
CURE = "sudo systemctl reboot --firmware-setup  # then: Above 4G Decoding and Resizable BAR on"


def _look(around: Surroundings) -> Found:
    every = cards(around)
    with_bar1 = [card for card in every if card.unknown.get("bar1_total_bytes") != NOT_SUPPORTED]
    if not with_bar1:
        raise DoesNotApply(f"{every[0].name} has no BAR1")
    sizes = {}
    for card in with_bar1:
        if card.bar1_total_bytes is None:
            raise NotKnown(f"BAR1 of {card.name} cannot be read: {card.unknown.get('bar1_total_bytes', 'not told')}")
        sizes[card.bar1_total_bytes // MIB] = card.name
    least = min(sizes)
    if least < LEAST_MIB:
        return Found(FAIL, f"BAR1 of {sizes[least]} has {least} MiB; {LEAST_MIB} is the least", CURE)
    return Found(PASS, f"BAR1 has {least} MiB; {LEAST_MIB} is the least")


CHECK = Check(
    "bar1",
    "BAR1 of 256 MiB or more on each GPU that has one",
    "seed 2, deployment checklist 3; field case N1",
    frozenset({PASS, FAIL, NOT_APPLICABLE, UNKNOWN}),
    _look,
)
