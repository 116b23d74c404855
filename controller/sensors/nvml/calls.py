"""One NVML call at a time: its answer, or the cause of there being none.

Belongs here: NVML's error codes, what each means for the device and for the library as a whole. Never: which calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml

NOT_SUPPORTED = "not supported"
UNIFIED_MEMORY = "unified memory"

# A newer or older way to ask may do: not supported, no such function, another version of the structure.
_TRY_ANOTHER = frozenset({3, 13, 25})
_DEVICE_GONE = {
    15: "NVML says that the GPU is lost: the kernel's log (NVRM: Xid) says why; reset it after a release of NVML",
    16: "NVML says that the GPU must be reset: do so after a release of NVML",
}
_LIBRARY_GONE = frozenset({1, 9})
_LIKELY_CAUSES = {
    4: "the user of this daemon may not open /dev/nvidiactl; give it access to the device files",
    9: "the kernel module nvidia was unloaded, as for a driver upgrade; load it again",
    18: "the driver's library and its kernel module differ, as after an unattended upgrade of the driver; "
    "reboot or load the module anew, then restart this daemon",
    999: "the driver was reloaded, or a reload of systemd took the devices away from the container; "
    "restart the container, or this daemon where it runs without one",
}


class DeviceLost(Exception):
    """This device answers no more; others may."""


class LibraryLost(Exception):
    """NVML as a whole answers no more: it must be initialised again."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(explain(code, words))
        self.code = code


def explain(code: int, words: str) -> str:
    """NVML's words and number, and the likely cause with its remedy where one is known."""
    cause = _LIKELY_CAUSES.get(code)
    return f"{words} ({code})" + (f": probably {cause}" if cause else "")


def library_lost(error: Any) -> LibraryLost:
    """From an NVMLError."""
    return LibraryLost(error.value, str(error))


class Answers:
    """The answers of one device. `unknown` names the cause for every field that got none."""

    def __init__(self) -> None:
        self.unknown: dict[str, str] = {}
        self.answered = 0
        self._failed: Any = None

    def ask(self, name: str, *calls: Callable[[], Any]) -> Any:
        """The answer of the first call that the driver knows, else None. Raises DeviceLost, LibraryLost."""
        for call in calls:
            try:
                answer = call()
            except pynvml.NVMLError as error:
                if error.value in _DEVICE_GONE:
                    raise DeviceLost(_DEVICE_GONE[error.value]) from error
                if error.value in _LIBRARY_GONE:
                    raise library_lost(error) from error
                self.unknown[name] = _cause(error)
                if error.value not in _TRY_ANOTHER:
                    self._failed = error
                    return None
            else:
                self.answered += 1
                self.unknown.pop(name, None)
                return answer
        return None

    def require_one(self) -> None:
        """Raises DeviceLost when not one call was answered and one failed: to support none of them is no failure."""
        if not self.answered and self._failed is not None:
            raise DeviceLost(f"NVML answers no call, one with {explain(self._failed.value, str(self._failed))}")


def _cause(error: Any) -> str:
    return NOT_SUPPORTED if error.value == pynvml.NVML_ERROR_NOT_SUPPORTED else str(error)
