"""Tokens are in files that nobody else reads.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from controller.preflight.result import FAIL, PASS, UNKNOWN, WARN, Check, Found, NotKnown
from controller.preflight.surroundings import Surroundings
from controller.token_file import TokenUnreadable, read_token


def _look(around: Surroundings) -> Found:
    files = dict(_files(around))
    for name, path in files.items():
        found = _of(name, path)
        if found is not None:
            return found
    api = around.settings.api
    if api.token_file is None and api.unix_socket is None and api.port:
        cure = "vllm-governor init - --api-token-file /etc/vllm-governor/api-token"
        return Found(WARN, "api.token_file is not set: nothing can be changed over the port", cure)
    return Found(PASS, f"readable by none but their owner and group: {', '.join(files) or 'none is used'}")


def _files(around: Surroundings) -> Iterator[tuple[str, Path]]:
    settings = around.settings
    found = {
        "engine.token_file": None if settings.engine.admin_socket is not None else settings.engine.token_file,
        "api.token_file": settings.api.token_file,
        "api.read_token_file": settings.api.read_token_file,
        "api.key_file": settings.api.key_file,
        "prometheus.token_file": settings.prometheus.token_file,
    }
    for name, receiver in settings.alerts.receivers.items():
        for kind in ("url_file", "secret_file", "token_file"):
            found[f"alerts.receivers.{name}.{kind}"] = getattr(receiver, kind)
    return ((name, path) for name, path in found.items() if path is not None)


def _of(name: str, path: Path) -> Found | None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return Found(FAIL, f"{name} = {path} is not there", _make(path))
    except OSError as error:
        raise NotKnown(f"{name} = {path} cannot be seen by this user: {error.strerror}") from error
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        return Found(
            FAIL, f"{name} = {path} has mode {mode:04o}: others may read it, or a group write it", _tighten(path)
        )
    if not os.access(path, os.R_OK):
        raise NotKnown(f"{name} = {path} may not be read by this user: ask as the daemon's")
    try:
        empty = not read_token(path)
    except TokenUnreadable as error:
        return Found(FAIL, f"{name} = {path} cannot be read: {error}", _make(path))
    return Found(FAIL, f"{name} = {path} is empty", _make(path)) if empty else None


def _make(path: Path) -> str:
    return f"(umask 077 && openssl rand -hex 32 > {path})"


def _tighten(path: Path) -> str:
    return f"sudo chmod o=,g-w {path}"


CHECK = Check(
    "tokens",
    "every token and key is in a file that its owner and group alone read, and its owner alone writes",
    "the admin RPC: who holds the token may steer the engine",
    frozenset({PASS, WARN, FAIL, UNKNOWN}),
    _look,
)
