"""The dashboard's files: its words in both languages, nothing from elsewhere, nothing in the page that its policy
forbids, one job a file.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from controller.api.static import FOLDER, POLICY
from domain.decision import Mode, Status
from domain.outcome import Verdict

MODULES = sorted(FOLDER.glob("js/*.js"))
TEXTS = [*MODULES, FOLDER / "index.html"]
WORDS = {name: json.loads((FOLDER / "i18n" / f"{name}.json").read_text(encoding="utf-8")) for name in ("en", "zh")}
LITERAL = (
    r'\bt\("([^"]+)"',
    r'data-i18n(?:-title)?="([^"]+)"',
    r'\bt\([^()"]* \? "([^"]+)"',
    r'\bt\([^"]*"[^"]+" : "([^"]+)"',
)
OF_THE_DAEMON = ("reason.",)
"""Looked up by a name that the daemon says."""
MOST_LINES = 300


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_both_languages_have_words_for_the_same_things() -> None:
    assert WORDS["en"].keys() == WORDS["zh"].keys()
    assert all(value.strip() for words in WORDS.values() for value in words.values())


def test_what_is_filled_in_is_the_same_in_both_languages() -> None:
    def names(words: str) -> list[str]:
        return sorted(re.findall(r"\{(\w+)\}", words))

    assert {key: names(words) for key, words in WORDS["en"].items()} == {
        key: names(words) for key, words in WORDS["zh"].items()
    }


def test_every_word_that_the_page_asks_for_is_there() -> None:
    asked = {key for path in TEXTS for pattern in LITERAL for key in re.findall(pattern, text(path))}
    assert len(asked) > 100
    assert asked - WORDS["en"].keys() == set()


def test_no_word_is_there_for_nothing() -> None:
    said = "".join(text(path) for path in TEXTS)
    begun = {*re.findall(r"[`\"']([a-z_0-9]+\.)\$\{", said), *OF_THE_DAEMON}
    unused = {key for key in WORDS["en"] if f'"{key}"' not in said and not key.startswith(tuple(begun))}
    assert unused == set()


@pytest.mark.parametrize(("kind", "names"), [("mode", Mode), ("status", Status), ("verdict", Verdict)])
def test_the_daemons_own_words_are_translated(kind: str, names: type[Mode | Status | Verdict]) -> None:
    assert {f"{kind}.{name.value}" for name in names} <= WORDS["zh"].keys()


def test_every_module_that_is_imported_is_there() -> None:
    for path in MODULES:
        for name in re.findall(r'from "\./([\w.]+)"', text(path)):
            assert (path.parent / name).is_file(), f"{path.name} imports {name}"


def test_every_element_that_a_module_asks_for_is_in_the_page() -> None:
    there = set(re.findall(r'\bid="([^"]+)"', text(FOLDER / "index.html")))
    asked = {name for path in MODULES for name in re.findall(r'byId\("([^"]+)"\)', text(path))}
    assert asked - there <= {"drawer-loading"}  # made by the module that asks for it


def test_nothing_is_fetched_from_elsewhere() -> None:
    for path in sorted(FOLDER.rglob("*.*")):
        addresses = re.findall(r"https?://[\w.]+", text(path))
        assert set(addresses) <= {"http://www.w3.org"}, path  # SVG's namespace, a name and no address


def test_no_script_and_no_style_stands_in_the_page() -> None:
    assert "unsafe" not in POLICY
    page = text(FOLDER / "index.html")
    assert not re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", page)
    for path in MODULES:
        assert not re.findall(
            r'innerHTML|outerHTML|insertAdjacentHTML|setAttribute\("style"|\beval\(|new Function', text(path)
        ), path


def test_a_file_has_one_job() -> None:
    for path in FOLDER.rglob("*.*"):
        if path.suffix in (".js", ".html", ".css"):
            assert len(text(path).splitlines()) <= MOST_LINES, path
    for path in MODULES:
        assert text(path).startswith(("// ", "/* ")), f"{path.name} does not say what belongs there"
