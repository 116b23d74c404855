"""README and docs/ lead where they say: links, pictures, files, settings and series of metrics exist, and both READMEs
tell the same.

Belongs here: what is true of every page. Never: what one page says (its own test), commands (test_docs_commands.py).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.metrics.series import CATALOGUE
from controller.settings import Settings
from tests.docs_text import PAGES, ROOT, blocks, prose, spans

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
ENGLISH, CHINESE = ROOT / "README.md", ROOT / "README.zh-CN.md"
OWN_SETTINGS = ROOT / "docs" / "custom-policy.md"
"""Its tables are those of a distribution of its own; test_extensions.py installs it."""
FOLDERS = "alerts|bench|controller|deploy|docs|domain|engine|policies|store|tests"


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of the headings."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(text: str) -> list[str]:
    """Of the page, pictures too, in their order; not what lies elsewhere."""
    found = re.findall(r'\]\(([^)\s]+)\)|src="([^"]+)"', text)
    return [link for pair in found for link in pair if link and "://" not in link]


@each_page
def test_every_link_and_picture_of_the_page_is_there(page: Path) -> None:
    for link in links(prose(page)):
        path, _, anchor = link.partition("#")
        file = page.parent / path if path else page
        assert file.is_file(), link
        assert not anchor or anchor in anchors(file), link


@each_page
def test_every_file_that_it_names_is_there(page: Path) -> None:
    named = {span for span in spans(page) if re.fullmatch(rf"(?:{FOLDERS})/[\w/.]+(?:::\w+)?", span)}
    assert [span for span in named if not (ROOT / span.partition("::")[0]).exists()] == []


@each_page
def test_every_example_of_settings_is_one_that_they_take(page: Path) -> None:
    if page != OWN_SETTINGS:
        for block in blocks(page, "toml"):
            assert Settings(**tomllib.loads(block))


SCHEMA = Settings.model_json_schema()


def leads_somewhere(schema: dict[str, Any], names: list[str]) -> bool:
    """Whether a dotted name is a setting, or a table. What an owner names (a rule, a receiver) may have any name,
    and NAME stands for one.
    """
    if "$ref" in schema:
        return leads_somewhere(SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], names)
    if not names or names[0].isupper() or any(leads_somewhere(one, names) for one in schema.get("anyOf", ())):
        return True
    if names[0] in schema.get("properties", {}):
        return leads_somewhere(schema["properties"][names[0]], names[1:])
    named = schema.get("additionalProperties")
    return isinstance(named, dict) and leads_somewhere(named, names[1:])


@each_page
def test_every_setting_that_it_names_is_one(page: Path) -> None:
    tables = "|".join(SCHEMA["properties"])
    dotted = [span for span in spans(page) if re.fullmatch(rf"(?:{tables})(?:\.\w+)+", span)]
    tables_named = [found for span in spans(page) for found in re.findall(r"^\[+((?:\w+\.)*\w+)\]+$", span)]
    assert [name for name in dotted + tables_named if not leads_somewhere(SCHEMA, name.split("."))] == []


@pytest.mark.parametrize("name", ["api.prot", "store.max_mb.more", "policies.batch_resize.flor", "alert.receivers"])
def test_a_setting_that_is_none_is_found_out(name: str) -> None:
    assert not leads_somewhere(SCHEMA, name.split("."))


def defaults(text: str) -> Iterator[tuple[str, str]]:
    """Settings with the default that a page tells, in a table or a list after "In `[table]`"."""
    for part in re.split(r"(?:^|\. )(?:In |Settings, in )?`\[(?=\w)", text, flags=re.MULTILINE)[1:]:
        table, _, told = part.partition("\n#")[0].partition("]`")
        for names, values in re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", told, re.MULTILINE):
            for name, value in zip(re.findall(r"`([\w.]+)`", names), values.strip().split(", "), strict=False):
                yield f"{table}.{name}", value
        listed = re.match(r"[^:\n]*: (`.*?)(?:\n\n|\Z)", told, re.DOTALL)
        for name, value in re.findall(r"`([\w.]+)` (-?[\d.]*\d|true|false)\b", listed[1] if listed else ""):
            yield f"{table}.{name}", value


def test_every_default_that_is_told_is_the_default() -> None:
    told = [pair for page in PAGES for pair in defaults(page.read_text(encoding="utf-8"))]
    found = []
    for name, value in told:
        default: Any = Settings()
        for part in name.split("."):
            default = getattr(default, part)
        if re.fullmatch(r"-?[\d.]+", value):
            found.append((name, default, float(value)))
        elif value in ("true", "false"):
            found.append((name, default, value == "true"))
    assert [one for one in found if one[1] != one[2]] == []
    assert len(found) > 150


@each_page
def test_every_series_that_it_names_is_exported(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("vllm_governor_engine", "")
    for name, more in re.findall(r"\b(vllm_governor_\w+)(\.\.\.)?", text):
        assert any(one.startswith(name) for one in CATALOGUE) if more else name in CATALOGUE, name


def sections(page: Path) -> list[str]:
    return re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)


def shape(section: str) -> dict[str, Any]:
    """What has to be the same in every language."""
    commands = [line.partition("#")[0].strip() for line in re.findall(r"^(?:\.venv|make) ?.*$", section, re.MULTILINE)]
    return {
        "links": sorted(link for link in links(section) if not link.startswith("README")),
        "commands": commands,
        "named": sorted(re.findall(r"`([^`\n]+)`", section)),
        "points": len(re.findall(r"^(?:- |\d+\. |\| )", section, re.MULTILINE)),
    }


def test_both_readmes_have_the_same_sections_with_the_same_in_them() -> None:
    english, chinese = sections(ENGLISH), sections(CHINESE)
    assert [shape(section) for section in chinese] == [shape(section) for section in english]


def test_the_readme_leads_to_every_page() -> None:
    assert {page.name for page in PAGES if page.parent != ROOT} <= {Path(link).name for link in links(prose(ENGLISH))}
