"""Addresses, secrets and tokens: read from their files anew for each request, and kept out of every text.

Belongs here: reading them, and blotting them out. Never: what they are used for.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from domain.errors import CannotSend

BLOT = "***"


def read(path: Path, setting: str) -> str:
    """The secret in `path`, without the white space around it. Raises CannotSend that names `setting` and the file."""
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise CannotSend(f"cannot read {setting} = {path}: {error.strerror}; the next attempt reads again") from error
    except UnicodeDecodeError as error:
        raise CannotSend(f"cannot read {setting} = {path}: it is not text; write the secret alone into it") from error
    if not secret or not secret.isprintable() or " " in secret:
        what = "is empty" if not secret else "holds more than one word"
        raise CannotSend(f"cannot use {setting} = {path}: it {what}; write the secret alone into it")
    return secret


def address(url: str | None, url_file: Path | None, setting: str) -> str:
    """Where to send to. Raises CannotSend; no text tells the address itself, for a chat's is a secret."""
    if url is None:
        if url_file is None:
            raise CannotSend(f"cannot send: {setting} has neither url nor url_file; set one of them")
        url, setting = read(url_file, f"{setting}.url_file"), f"{setting}.url_file"
    if not _is_address(url):
        raise CannotSend(f"cannot send: {setting} is no address; it must begin with https:// or http://")
    return url


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port past 65535, half of an IPv6 address
        return False


def of_address(url: str) -> Iterator[str]:
    """What of an address is secret: itself, and each part of it that looks like a key rather than like a word."""
    yield url
    parts = urlsplit(url)
    yield from (found for found in (parts.password, parts.query) if found)
    if parts.username is not None:  # as HTTP sends both of them
        both = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        yield base64.b64encode(both.encode()).decode()
    values = [pair.partition("=")[2] for pair in parts.query.split("&")]
    for piece in (parts.username or "", *parts.path.split("/"), *values):
        if len(piece) >= 20 or (len(piece) >= 8 and any(letter.isdigit() for letter in piece)):
            yield piece


def blotted(text: str, secrets: Iterable[str]) -> str:
    """`text` without the secrets, as they are or as an address or JSON writes them."""
    forms = {form for secret in secrets for form in (secret, unquote(secret), quote(secret, safe=""), _in_json(secret))}
    for form in sorted(forms - {""}, key=len, reverse=True):
        text = text.replace(form, BLOT)
    return text


def _in_json(secret: str) -> str:
    return json.dumps(secret)[1:-1]
