"""What README, docs/ and `--help` tell to type exists: commands with their options, benches, targets of make.

Belongs here: reading what they tell, and holding it against the programs. Never: what a command does.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from bench.__main__ import BENCHES
from controller.__main__ import app
from tests.docs_text import PAGES, ROOT, blocks, spans


def commands(one: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All of them, groups too, with the words that lead there."""
    yield words, one
    for name, under in getattr(one, "commands", {}).items():
        yield from commands(under, (*words, name))


ALL = dict(commands(get_command(app)))


def told(text: str) -> list[str]:
    """What follows `vllm-governor` in a line, up to a comment or another program."""
    return [found.strip() for found in re.findall(r"(?<=vllm-governor )(?:'[^'\n]*'|[^'\n#|&;`])+", text)]


EXAMPLES = sorted(
    {(page.name, line) for page in PAGES for block in blocks(page) for line in told(block)}
    | {(f"{' '.join(words)} --help", line) for words, one in ALL.items() for line in told(one.help or "")}
)
NAMED = sorted({(page.name, line) for page in PAGES for span in spans(page) for line in told(span)})


def resolved(line: str) -> tuple[Any, list[str]]:
    """The command, and the words after its name."""
    words = shlex.split(re.sub(r"[\[\]]", " ", line))
    path: tuple[str, ...] = ()
    while words and (*path, words[0]) in ALL:
        path, words = (*path, words[0]), words[1:]
    return ALL[path], words


@pytest.mark.parametrize(("where", "line"), EXAMPLES)
def test_an_example_is_a_command_that_could_be_given(where: str, line: str) -> None:
    one, words = resolved(line)
    assert not hasattr(one, "commands"), f"{where}: no such command"
    if "--help" not in words and "…" not in line:
        one.make_context("told", words)  # raises for an option, a value or a number of arguments that it does not take


@pytest.mark.parametrize(("where", "line"), NAMED)
def test_a_command_and_options_that_are_named_exist(where: str, line: str) -> None:
    one, words = resolved(line)
    assert not hasattr(one, "commands") or not words or words[0].startswith("-") or words == ["COMMAND", "--help"], (
        where
    )
    known = {name for option in one.params for name in (*option.opts, *option.secondary_opts)} | {"--help"}
    assert {word.partition("=")[0] for word in words if word.startswith("-")} <= known, where


def test_the_table_of_commands_has_every_command() -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", (ROOT / "docs" / "cli.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = {span.split()[0] for row in rows for span in re.findall(r"`([^`]+)`", row)}
    assert {words[0] for words in ALL if words} <= named


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_no_help_loses_a_word_in_brackets(words: tuple[str, ...]) -> None:
    one = ALL[words]
    texts = [one.help, *(getattr(option, "help", None) for option in one.params)]
    assert [text for text in texts if re.search(r"\[[a-z]", text or "")] == [], "what is drawn takes it for a style"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_bench_and_target_of_make_that_is_told_is_there(page: Path) -> None:
    text = "\n".join(blocks(page) + spans(page))
    assert set(re.findall(r"(?:-m bench |make (?:-s )?bench-)(\w+)", text)) <= BENCHES.keys()
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {*re.findall(r"\bmake (?:-s )?(?!bench-|-)([a-z-]+)", text)} <= {*targets}
