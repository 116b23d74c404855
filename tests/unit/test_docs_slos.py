"""docs/slos.md says what the settings are."""

from __future__ import annotations

import re
from pathlib import Path

from policies.objectives import ProposalSettings

TEXT = (Path(__file__).parents[2] / "docs" / "slos.md").read_text(encoding="utf-8")


def test_every_setting_of_the_proposal_is_there_with_its_default() -> None:
    told: dict[str, str] = {}
    for names, values in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]+) \|", TEXT, re.MULTILINE):
        told |= dict(zip(re.findall(r"`(\w+)`", names), values.strip().split(", "), strict=True))
    defaults = {
        name: str(field.default).lower() if isinstance(field.default, bool) else f"{field.default:g}"
        for name, field in ProposalSettings.model_fields.items()
    }
    assert told == defaults
