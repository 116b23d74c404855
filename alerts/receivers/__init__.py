"""Receivers: one file per kind.

Belongs here: finding the class of a kind. Never: what a kind does.
"""

from __future__ import annotations

from importlib import import_module

from alerts.receivers.base import Answer, Delivered, Receiver, Refused, Request, Retry
from alerts.settings import ReceiverSettings

__all__ = ["Answer", "Delivered", "Receiver", "Refused", "Request", "Retry", "build"]


def build(name: str, settings: ReceiverSettings, external_url: str | None) -> Receiver:
    """The receiver `name`. Raises SettingsError where its template is wrong.

    A kind's file is loaded with its first receiver: those for chats bring Jinja2 along.
    """
    file = import_module(f"alerts.receivers.{settings.kind}")
    made: Receiver = getattr(file, settings.kind.title())(name, settings, external_url)
    return made
