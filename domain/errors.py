"""The error tree. Two branches, because a caller does one of two things with an error.

GovernorError
├── RecoverableError       the loop says so and tries again at the next tick
│   ├── EngineUnreachable  no answer from vLLM (refused, timed out, connection lost)
│   ├── PluginMissing      vLLM answers, but its governor routes do not exist
│   ├── EngineRefused      the plugin refused a call: token, bounds, unsupported knob
│   │   ├── HeldByAnother  another daemon holds the engine's lease
│   │   └── StaleGeneration  boot id or generation moved on: read again, then decide again
│   ├── BadReading         an answer came that cannot be understood
│   ├── HistoryUnavailable the history could not be written or read
│   ├── CannotSend         a notification's request cannot be made: a secret's file cannot be read
│   └── Refused            what an operator asked for is not done (controller/operations/refusal.py)
└── FinalError             the start stops, or the command exits
    ├── CannotInstall      a step of `install` or `uninstall` failed
    ├── CannotListen       the port of the daemon's own routes is not to be had
    ├── CannotWrite        a command could not write the file it was asked for
    ├── DaemonRefused      the running daemon refused what a command asked
    ├── DaemonUnreachable  a command got no answer from the daemon
    ├── NewerSchema        the history was written by a newer version
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


class HeldByAnother(EngineRefused):
    """Another daemon steers this engine; `holder` is its name."""

    def __init__(self, message: str, holder: str) -> None:
        super().__init__(message)
        self.holder = holder


class BadReading(RecoverableError):
    """A sensor's answer cannot be understood."""


class HistoryUnavailable(RecoverableError):
    """The history cannot be read or written now."""


class CannotSend(RecoverableError):
    """The request that tells a notification cannot be made now."""


class FinalError(GovernorError):
    """Trying again cannot help."""


class CannotInstall(FinalError):
    """A step that puts the daemon on a machine, or takes it away, failed; it can be run again."""


class CannotListen(FinalError):
    """The daemon's own port is taken, forbidden or not an address of this machine."""


class CannotWrite(FinalError):
    """A file that a command was asked for cannot be written."""


class DaemonRefused(FinalError):
    """The running daemon refused what a command asked."""


class DaemonUnreachable(FinalError):
    """The daemon does not run, or not where it was looked for, or does not answer."""


class NewerSchema(FinalError):
    """A newer version of this program wrote the history: this one leaves it alone."""


class SettingsError(FinalError):
    """A setting is unknown, missing, of the wrong type or out of bounds."""
