"""The knob `keep_alive_s` in this process.

Here: uvicorn's time after which an idle connection is closed. Never here: connections that are open already; uvicorn
reads the time when a connection is made.

Source: `app.state.server.config.timeout_keep_alive`; vLLM puts the server there just before it begins to serve.
"""

from __future__ import annotations

from typing import Any

from vllm_governor_engine import probe
from vllm_governor_engine.knobs.api_side import KEEP_ALIVE

from .parts import Offer, Situation, off

_ATTRIBUTE = "timeout_keep_alive"
BOUNDS = (1, 3600)
"""Seconds. Below 1 a client's next request races with the closing."""


class KeepAlive:
    """Idle time of a connection; `state` is the application's."""

    name = KEEP_ALIVE

    def __init__(self, state: Any) -> None:
        self._state = state
        self._startup: int | None = None

    def offer(self) -> Offer:
        """Off until vLLM serves, and where the server does not read it."""
        config = self._config()
        if config is None:
            return off("this API process does not serve yet, or not with uvicorn")
        protocol = getattr(config, "http_protocol_class", None)
        if not isinstance(protocol, type) or not probe.reads(protocol, "__init__", _ATTRIBUTE):
            return off("the server does not read a keep-alive time this plugin knows")
        if self._startup is None:
            self._startup = int(getattr(config, _ATTRIBUTE))
        low, high = BOUNDS
        return Offer(startup=self._startup, low=low, high=max(high, self._startup))

    def apply(self, value: int | None, situation: Situation) -> None:
        """For connections made from now on."""
        config = self._config()
        if config is None or self._startup is None:
            return
        target = self._startup if value is None else value
        if getattr(config, _ATTRIBUTE) != target:
            setattr(config, _ATTRIBUTE, target)

    def release(self) -> None:
        """The start-up time."""
        config = self._config()
        if config is not None and self._startup is not None:
            setattr(config, _ATTRIBUTE, self._startup)

    def _config(self) -> Any:
        config = getattr(getattr(self._state, "server", None), "config", None)
        return config if hasattr(config, _ATTRIBUTE) else None
