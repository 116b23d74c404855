"""Arithmetic over named signals: what a rule may compare beside a signal alone.

Belongs here: reading `waiting / max(running, 1)`, and its value. Never: which names there are, thresholds.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

MOST_CHARACTERS = 500
"""Long enough for any rule that a person reads."""
DEEPEST = 30
"""How far its parts may be nested: its value is worked out as deep in calls, at every tick."""

Lookup = Callable[[str], float | None]
"""A signal's value by its name; None: unknown."""
_Part = Callable[[Lookup], float | None]

_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FUNCTIONS: Mapping[str, tuple[Callable[..., float], int, float]] = {
    "min": (min, 2, math.inf),
    "max": (max, 2, math.inf),
    "abs": (abs, 1, 1),
}
"""With the fewest and the most arguments."""
_ALLOWED = "signals, numbers, + - * /, parentheses, min, max and abs"


@dataclass(frozen=True, slots=True)
class Expression:
    """One that can be evaluated. `names` are the signals it rests on, each once, in the order they are read."""

    text: str
    names: tuple[str, ...]
    value_of: _Part

    @property
    def plain(self) -> bool:
        """Whether it is a signal's name and nothing else."""
        return self.names == (self.text,)

    def value(self, lookup: Lookup) -> float | None:
        """Its value now. Unknown as soon as one signal is, and where it has none: a division by zero, an overflow."""
        try:
            found = self.value_of(lookup)
        except (ZeroDivisionError, OverflowError):
            return None
        return found if found is not None and math.isfinite(found) else None


@functools.lru_cache(maxsize=1024)
def parse(text: str) -> Expression:
    """The expression. Raises ValueError that shows the part that cannot stand in one."""
    said = text if len(text) <= 60 else f"{text[:60]}..."
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"cannot use signal {said!r}: it is longer than {MOST_CHARACTERS} characters; split the rule")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        names: dict[str, None] = {}
        part = _read(tree, names, DEEPEST)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error) or "it is nested too deep"
        raise ValueError(f"cannot use signal {said!r}: {why}; it may be made of {_ALLOWED}") from error
    if not names:
        raise ValueError(f"cannot use signal {said!r}: it names no signal; it may be made of {_ALLOWED}")
    return Expression(text.strip(), tuple(names), part)


def _read(node: ast.expr, names: dict[str, None], deep: int) -> _Part:
    if not deep:
        raise ValueError("it is nested too deep")
    match node:
        case ast.Name(id=name):
            names[name] = None
            return lambda lookup: lookup(name)
        case ast.Constant(value=int() | float() as told) if not isinstance(told, bool):
            number = _number(told)
            return lambda lookup: number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _applied(operator.neg, (_read(operand, names, deep - 1),))
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _read(operand, names, deep - 1)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _applied(_OPERATORS[type(op)], (_read(left, names, deep - 1), _read(right, names, deep - 1)))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            function, fewest, most = _FUNCTIONS[name]
            if not fewest <= len(args) <= most:
                raise ValueError(f"{name} takes {fewest}{' or more' if most > fewest else ''}, not {len(args)} values")
            return _applied(function, tuple(_read(one, names, deep - 1) for one in args))
        case _:
            raise ValueError(f"{ast.unparse(node)!r} cannot stand in it")


def _number(told: int | float) -> float:
    try:
        number = float(told)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise ValueError("a number in it is too large")
    return number


def _applied(function: Callable[..., float], parts: tuple[_Part, ...]) -> _Part:
    def value(lookup: Lookup) -> float | None:
        known = [found for part in parts if (found := part(lookup)) is not None]
        return function(*known) if len(known) == len(parts) else None

    return value
