"""An ASGI layer around vLLM's application: Retry-After on refusals, Connection: close, and a queue limit of our own.

Here: what is done to a request on its way in and to an answer on its way out, and putting the layer in place while it
has something to do. Never here: what is wanted (the parts say that).

It is put around the live application's middleware stack (Starlette reads `app.middleware_stack` at each request), so
nothing is in the way of a request until a knob needs it, and nothing is left when it does not any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vllm_governor_engine import probe
from vllm_governor_engine.asgi import Receive, Scope, Send, send_json

RETRY_AFTER_S = 1
"""What a refused client is asked to wait. How long the queue takes to move is not known here."""
_MESSAGE = "The queue is full; try again later or on a different instance."
_GENERATING = (
    "/completions",
    "/completions/batch",
    "/v2/chat",
    "/responses",
    "/messages",
    "/embeddings",
    "/embed",
    "/generative_scoring",
    "/generate",
    "/invocations",
    "/pooling",
    "/classify",
    "/score",
    "/rerank",
    "/audio/transcriptions",
    "/audio/translations",
)
"""Ends of the paths that put a request into the engine."""


class Gate:
    """The layer. `app` is vLLM's FastAPI application."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._inner: Any = None
        self._close = False
        self._retry_after = False
        self._limit: int | None = None
        self._unfinished: Callable[[], int] = lambda: 0
        self._in_flight = 0
        self.rejected_total = 0
        """Requests that were refused while a queue limit was on: answers 503, vLLM's and ours."""

    def unusable(self) -> str | None:
        """Why the layer cannot be put around this application; None when it can."""
        if not probe.reads(type(self._app), "__call__", "middleware_stack"):
            return f"{type(self._app).__name__} reads no middleware stack this plugin knows"
        return None

    @property
    def placed(self) -> bool:
        """True while requests pass through the layer."""
        return self._inner is not None and self._app.middleware_stack is self

    def close_connections(self, on: bool) -> None:
        """End each connection with its answer."""
        self._close = on
        self._place()

    def explain_refusals(self, on: bool) -> None:
        """Give every 503 to a POST a Retry-After, and count it."""
        self._retry_after = on
        self._place()

    def limit(self, limit: int | None, unfinished: Callable[[], int] = lambda: 0) -> None:
        """Refuse generating requests beyond `limit` unfinished ones; `unfinished` counts those the engine has."""
        self._limit = limit
        self._unfinished = unfinished
        self._place()

    def _place(self) -> None:
        needed = self._close or self._retry_after or self._limit is not None
        if needed and self._inner is None:
            if self._app.middleware_stack is None:  # not a request yet
                self._app.middleware_stack = self._app.build_middleware_stack()
            self._inner, self._app.middleware_stack = self._app.middleware_stack, self
        elif not needed and self.placed:
            # Requests under way keep their reference to us and to what lies within. When somebody put a layer around
            # ours since, ours stays and lets everything pass.
            self._app.middleware_stack, self._inner = self._inner, None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        inner = self._inner or self._app.middleware_stack
        if scope["type"] != "http":
            await inner(scope, receive, send)
            return
        generating = scope["method"] == "POST" and scope["path"].endswith(_GENERATING)
        if generating and self._full():
            self.rejected_total += 1
            content = {"error": {"message": _MESSAGE, "type": "ServiceUnavailable", "param": None, "code": 503}}
            headers = {"retry-after": str(RETRY_AFTER_S), **({"connection": "close"} if self._close else {})}
            await send_json(send, 503, content, headers)
            return
        self._in_flight += generating
        try:
            await inner(scope, receive, self._marking(scope, generating, send))
        finally:
            self._in_flight -= generating

    def _full(self) -> bool:
        if self._limit is None:
            return False
        try:
            unfinished = self._unfinished()
        except Exception:
            unfinished = 0
        return max(unfinished, self._in_flight) >= self._limit

    def _marking(self, scope: Scope, generating: bool, send: Send) -> Send:
        async def marked(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                if self._retry_after and message["status"] == 503 and scope["method"] == "POST":
                    self.rejected_total += generating
                    if not any(name.lower() == b"retry-after" for name, _ in headers):
                        headers.append((b"retry-after", str(RETRY_AFTER_S).encode()))
                if self._close and not any(name.lower() == b"connection" for name, _ in headers):
                    headers.append((b"connection", b"close"))
                message = {**message, "headers": headers}
            await send(message)

        return marked
