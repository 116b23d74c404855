"""Whether the kernel holds its clock for synchronised.

Belongs here: one call of adjtimex(2) that changes nothing. Never: what that means.
"""

from __future__ import annotations

import ctypes
import struct

from controller.preflight.surroundings import KernelClock

_HEAD = struct.Struct("@Illlli")
"""The beginning of `struct timex`: modes, offset, freq, maxerror (us), esterror, status."""
_WHOLE = 256
"""Bytes; the structure has 208 on 64-bit Linux."""
_UNSYNCHRONISED = 0x40


def read() -> KernelClock | None:
    """None where the kernel has no such call, or a sandbox forbids it."""
    buffer = ctypes.create_string_buffer(_WHOLE)
    try:
        if ctypes.CDLL(None).adjtimex(buffer) < 0:
            return None
    except (AttributeError, OSError):
        return None
    _modes, _offset, _frequency, max_error_us, _estimate, status = _HEAD.unpack_from(buffer)
    return KernelClock(not status & _UNSYNCHRONISED, max_error_us / 1e6)
