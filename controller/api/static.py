"""GET / and /static/...: the dashboard's files, as they were installed.

Belongs here: which files there are, their headers. Never: what is in them (controller/dashboard).
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import mimetypes
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from aiohttp import web

from controller.api.conditional import quoted, unchanged
from controller.api.models.stream import FileAsked
from controller.api.problem import Problem
from controller.api.routes import Access, Call, Route
from controller.operations.refusal import Kind

FOLDER = Path(__file__).parent.parent / "dashboard" / "static"
INDEX = "index.html"
CHARTS = "plotly.min.js"
"""The chart library, out of its own package."""
MEDIA = (
    "text/html",
    "text/css",
    "text/javascript",
    "application/json",
    "image/svg+xml",
    "image/png",
    "image/x-icon",
    "font/woff2",
)
KNOWN = {".js": "text/javascript", ".mjs": "text/javascript", ".ico": "image/x-icon", ".woff2": "font/woff2"}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""Content-Security-Policy: nothing from elsewhere, no script in a page."""
HEADERS = {"Cache-Control": "no-cache", "Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}
"""A browser keeps the files and asks each time whether they are still the same."""


@dataclass(frozen=True, slots=True)
class _File:
    media: str
    etag: str
    packed: bytes
    """Gzipped: most of it is one library of megabytes."""


class Files:
    """Read when they are first asked for. Only what was there at the start is served, so no path leads elsewhere."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
        if (charts := _charts()) is not None:
            self._paths[CHARTS] = charts
        self._read: dict[str, _File] = {}

    async def answer(self, request: web.Request, name: str) -> web.StreamResponse:
        """One file. Raises Problem."""
        if name not in self._paths:
            reason = f"{name} is none of the dashboard's files"
            raise Problem(404, "answer with a file", reason, "the dashboard is at /")
        file = self._read.get(name)
        if file is None:
            file = self._read[name] = await asyncio.to_thread(_load, self._paths[name])
        headers = {**HEADERS, "ETag": quoted(file.etag), "Vary": "Accept-Encoding"}
        if unchanged(request.headers.get("If-None-Match"), file.etag):
            return web.Response(status=304, headers=headers)
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            headers["Content-Encoding"] = "gzip"
            body = file.packed
        else:
            body = await asyncio.to_thread(gzip.decompress, file.packed)
        charset = "utf-8" if file.media.startswith("text/") else None
        return web.Response(body=body, headers=headers, content_type=file.media, charset=charset)


def static_routes(files: Files) -> Iterator[Route]:
    """The rows of the table."""

    async def index(call: Call[None, None]) -> web.StreamResponse:
        return await files.answer(call.request, INDEX)

    async def file(call: Call[FileAsked, None]) -> web.StreamResponse:
        return await files.answer(call.request, call.asked.path)

    missing = (Kind.UNKNOWN,)
    yield Route("GET", "/", Access.OPEN, index, "the dashboard", problems=missing, media=("text/html",), cached=True)
    yield Route(
        "GET",
        "/static/{path:.+}",
        Access.OPEN,
        file,
        "the dashboard's files",
        asked=FileAsked,
        problems=missing,
        media=MEDIA,
        cached=True,
    )


def _charts() -> Path | None:
    """plotly's JavaScript without importing plotly, which takes seconds."""
    found = find_spec("plotly")
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / "package_data" / CHARTS
    return path if path.is_file() else None


def _load(path: Path) -> _File:
    raw = path.read_bytes()
    media = KNOWN.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return _File(media, hashlib.sha256(raw).hexdigest()[:32], gzip.compress(raw, mtime=0))
