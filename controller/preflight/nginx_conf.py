"""nginx's configuration as blocks in blocks, includes put in where they stand.

Belongs here: its words, comments and quotes. Never: a judgement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from controller.preflight.looking import text

MOST_FILES = 200
UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_WORD = re.compile(r"""\s+|\#[^\n]*|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([{};])|([^\s{};"'\#][^\s{};]*)""")


@dataclass(slots=True)
class Block:
    """`upstream vllm { ... }`: a name, its first argument, the directives and the blocks in it."""

    name: str
    argument: str = ""
    directives: list[tuple[str, str]] = field(default_factory=list)
    """Each with its first argument."""
    blocks: list[Block] = field(default_factory=list)

    def values(self, name: str) -> list[str]:
        """First arguments of a directive, of this block alone."""
        return [argument for found, argument in self.directives if found == name]

    def named(self, name: str) -> list[Block]:
        """Blocks of that name right in it."""
        return [block for block in self.blocks if block.name == name]

    def all(self, name: str) -> Iterator[str]:
        """First arguments of a directive, of the blocks in it too."""
        yield from self.values(name)
        for block in self.blocks:
            yield from block.all(name)


def read(folder: Path) -> Block | None:
    """From nginx.conf on; None where there is none. Raises NotKnown where a file may not be read."""
    if text(folder / "nginx.conf") is None:
        return None
    root = Block("main")
    _Reader(folder).into(root, folder / "nginx.conf")
    return root


class _Reader:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._left = MOST_FILES
        """An include of itself ends here."""

    def into(self, root: Block, path: Path) -> None:
        self._left -= 1
        if self._left < 0:
            return
        stack, words = [root], list[str]()
        for found in _WORD.finditer(text(path) or ""):
            double, single, mark, bare = found.groups()
            if mark is None:
                words += [word for word in (double, single, bare) if word is not None]
                continue
            self._mark(mark, stack, words)
            words = []

    def _mark(self, mark: str, stack: list[Block], words: list[str]) -> None:
        name, argument = (*words, "", "")[:2]
        if mark == "{":
            block = Block(name, argument)
            stack[-1].blocks.append(block)
            stack.append(block)
        elif mark == "}":
            del stack[max(1, len(stack) - 1) :]
        elif name == "include":
            inside = argument.removeprefix("/etc/nginx/").lstrip("/")
            for path in sorted(self._folder.glob(inside)) if inside else ():
                self.into(stack[-1], path)
        elif name:
            stack[-1].directives.append((name, argument))


def seconds(argument: str) -> float:
    """nginx's times: `180s`, `3m`, `75`; numbers without a unit are as they are. Raises ValueError."""
    found = re.fullmatch(r"(\d+)([smhd]?)", argument)
    if found is None:
        raise ValueError(f"{argument!r} is no time of nginx's")
    return float(found[1]) * UNITS_S[found[2]]
