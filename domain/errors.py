"""The error tree. Two branches, because a caller does one of two things with an error.

GovernorError
├── RecoverableError       the loop says so and tries again at the next tick
│   ├── EngineUnreachable  no answer from vLLM (refused, timed out, connection lost)
│   ├── PluginMissing      vLLM answers, but its governor routes do not exist
│   ├── EngineRefused      the plugin refused a call: token, bounds, unsupported knob
│   │   └── StaleGeneration  boot id or generation moved on: read again, then decide again
│   ├── BadReading         an answer came that cannot be understood
│   └── HistoryUnavailable the history could not be written or read
└── FinalError             the start stops, or the command exits
    └── SettingsError      a setting is unknown, missing or out of bounds
"""

from __future__ import annotations


class GovernorError(Exception):
    """Base of every error of ours; its text is one sentence that names the input, the reason and the remedy."""


class RecoverableError(GovernorError):
    """The next tick may succeed."""


class EngineUnreachable(RecoverableError):
    """vLLM gave no answer."""


class PluginMissing(RecoverableError):
    """vLLM answers, but the governor plugin's routes are not there."""


class EngineRefused(RecoverableError):
    """The plugin refused a call and changed nothing."""


class StaleGeneration(EngineRefused):
    """The call rested on a boot id or generation that is no longer current (HTTP 412)."""


class BadReading(RecoverableError):
    """A sensor's answer cannot be understood."""


class HistoryUnavailable(RecoverableError):
    """The history cannot be read or written now."""


class FinalError(GovernorError):
    """Trying again cannot help."""


class SettingsError(FinalError):
    """A setting is unknown, missing, of the wrong type or out of bounds."""
