"""What a collector is: something that counts while the engine runs.

Here: the protocol. Never here: a particular collector, or when it runs; that is `collection`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Clock = Callable[[], float]
"""Gives seconds: monotonic or of the day, as said where it is taken."""


class Collector(Protocol):
    """One group of figures, collected as cheaply as can be; whatever can wait for `read` does.

    It is built when the collection begins and may hook what it needs then. Whatever raises out of it takes it out:
    `stop` is called once and its group is None from then on.
    """

    def read(self) -> dict[str, Any] | None:
        """The group as it stands; None when it is not known."""

    def stop(self) -> None:
        """Put back whatever it hooked."""
