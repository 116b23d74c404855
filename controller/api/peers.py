"""Where a request comes from.

Belongs here: telling this machine from others, the Unix socket from the port, plain from encrypted. Never: who may do
what (access.py).
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from dataclasses import dataclass
from functools import lru_cache

from aiohttp import web

FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Real-IP")
"""A proxy on this machine passes on what others ask: with one of these a request is not from here."""
UNMAPPED_UID = 65534
"""What a user namespace, as PrivateUsers=yes makes one, shows for users that it does not know (user_namespaces(7))."""
REMEMBERED = 128
"""Addresses: the same few ask again and again, and taking one apart costs more than the rest of admitting a request."""
NETWORK_BITS = 64
"""Of an IPv6 address: one subscriber has at least so many addresses as are in it."""


@dataclass(frozen=True, slots=True)
class Peer:
    """`name` is for people and the audit; `bucket` is what its requests are counted under."""

    name: str
    bucket: str
    here: bool
    """On this machine, and not for somebody else."""
    unix: bool
    secure: bool


def peer_of(request: web.Request) -> Peer:
    """Who is at the other end of the connection."""
    transport = request.transport
    end = None if transport is None else transport.get_extra_info("socket")
    if end is not None and end.family == socket.AF_UNIX:
        return Peer(_user(end), "unix", here=True, unix=True, secure=True)
    remote = request.remote or "an unknown address"
    forwarded = any(name in request.headers for name in FORWARDED)
    here = from_here(request.remote) and not forwarded
    return Peer(remote, _bucket(remote), here=here, unix=False, secure=request.secure)


def from_here(remote: str | None) -> bool:
    """Whether an address is this machine's own."""
    address = _address(remote or "")
    return address is not None and address.is_loopback


def names_this_machine(host: str) -> bool:
    """Whether a Host header does: a page of elsewhere whose name was made to lead here sends its own name."""
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    name = name.strip("[]").lower().rstrip(".")
    return name == "localhost" or name.endswith(".localhost") or _address(name) is not None


@lru_cache(REMEMBERED)
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text.split("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


@lru_cache(REMEMBERED)
def _bucket(remote: str) -> str:
    address = _address(remote)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, NETWORK_BITS), strict=False))
    return remote if address is None else str(address)


def _user(end: socket.socket) -> str:
    """The Unix socket's other end, where the system tells its user."""
    if not hasattr(socket, "SO_PEERCRED"):
        return "the Unix socket"
    size = struct.calcsize("3i")
    _pid, uid, _gid = struct.unpack("3i", end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    who = "a user that the daemon's user namespace hides" if uid == UNMAPPED_UID else f"uid {uid}"
    return f"{who} at the Unix socket"
