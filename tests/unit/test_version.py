"""One version for both distributions, and everywhere the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
SOURCE = "engine/vllm_governor_engine/__init__.py"


def project(file: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / file).read_text(encoding="utf-8"))


def version() -> str:
    (found,) = re.findall(r'^__version__ = "([^"]+)"$', (ROOT / SOURCE).read_text(encoding="utf-8"), re.MULTILINE)
    return str(found)


def test_both_distributions_read_their_version_in_one_file() -> None:
    daemon, plugin = project("pyproject.toml"), project("engine/pyproject.toml")
    assert "version" in daemon["project"]["dynamic"]
    assert daemon["tool"]["hatch"]["version"]["path"] == SOURCE
    assert "version" in plugin["project"]["dynamic"]
    assert plugin["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "vllm_governor_engine.__version__"}


def test_the_changelog_begins_with_this_version_or_with_what_is_not_released() -> None:
    headings = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert next(heading for heading in headings if heading != "Unreleased") == version()


def test_images_carry_it() -> None:
    kustomization = yaml.safe_load((ROOT / "deploy/kubernetes/kustomization.yaml").read_text(encoding="utf-8"))
    assert {image["newTag"] for image in kustomization["images"]} == {version()}
    services = yaml.safe_load((ROOT / "deploy/compose/compose.yaml").read_text(encoding="utf-8"))["services"]
    assert {one["image"].partition(":")[2] for one in services.values() if "build" in one} == {version()}
