"""Several H100-PCIE-80G are bridged.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight.looking import cards_of
from controller.preflight.result import NOT_APPLICABLE, PASS, UNKNOWN, WARN, Check, DoesNotApply, Found, NotKnown
from controller.preflight.surroundings import Surroundings
from controller.sensors.nvml.calls import NOT_SUPPORTED
from policies.profiles import H100_PCIE_80G

CURE = "nvidia-smi nvlink --status  # and put an NVLink bridge on each pair of cards"


def _look(around: Surroundings) -> Found:
    found = cards_of(around, H100_PCIE_80G)
    if len(found) == 1:
        raise DoesNotApply("the engine uses one H100-PCIE-80G: there is nothing to bridge")
    for card in found:
        cause = card.unknown.get("nvlinks_active")
        if card.nvlinks_active is None and cause != NOT_SUPPORTED:
            raise NotKnown(f"NVML does not tell the NVLinks of {card.name}: {cause or 'not told'}")
    without = sum(1 for card in found if not card.nvlinks_active)
    if without:
        return Found(WARN, f"{without} of {len(found)} H100-PCIE-80G have no NVLink in use: they talk over PCIe", CURE)
    return Found(PASS, f"NVLinks are in use on all {len(found)} H100-PCIE-80G")


CHECK = Check(
    "nvlink",
    "several H100-PCIE-80G: NVLink is in use",
    "seed 1, hardware table",
    frozenset({PASS, WARN, NOT_APPLICABLE, UNKNOWN}),
    _look,
)
