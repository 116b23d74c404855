"""The files that belong on a machine with systemd, and whether those that are there are still ours.

Belongs here: which files, their text for one machine, telling one that was changed by hand. Never: writing them
(install_steps.py).
"""

from __future__ import annotations

import hashlib
import re
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import controller
from domain.errors import SettingsError

MACHINE = Path("/")
PROGRAM = Path("/opt/vllm-governor/bin/vllm-governor")
"""Where the shipped units look for this program."""
STEPS_FROM = 254
"""The systemd that knows RestartSteps= and, since 253, Type=notify-reload."""
HIDDEN = (Path("/home"), Path("/root"), Path("/run/user"), Path("/tmp"), Path("/var/tmp"))  # noqa: S108
"""What the unit's ProtectHome and PrivateTmp hide from the daemon."""
_SEAL = "# Written by vllm-governor install; unchanged while the rest has sha256 "
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class State(StrEnum):
    """Of a file on the machine, beside what is to stand there."""

    ABSENT = "absent"
    SAME = "same"
    OURS = "ours"
    """Written by another version, or for another program, and not touched since."""
    CHANGED = "changed"
    """By hand, or it was never ours."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is installed where. Raises SettingsError for a name that no unit can have."""

    root: Path = MACHINE
    """The machine's, or the folder of an image that is being made."""
    instance: str | None = None
    """The vLLM's name, where there are several on one host."""
    vllm_unit: str | None = None
    """vLLM's own unit; None: vllm.service, or vllm@INSTANCE.service."""

    def __post_init__(self) -> None:
        if self.instance is not None and not _NAME.fullmatch(self.instance):
            raise SettingsError(
                f"cannot use --instance {self.instance}: a name has letters, digits, '_', '.' and '-', 64 at most"
            )
        if not re.fullmatch(r"[A-Za-z0-9_.@:-]{1,240}\.service", self.steered):
            raise SettingsError(f"cannot use --vllm-unit {self.steered}: it is no unit's name as vllm.service")

    @property
    def whole_machine(self) -> bool:
        """Not an image: its systemd runs."""
        return self.root == MACHINE

    @property
    def unit(self) -> str:
        """The name of the unit's file."""
        return "vllm-governor.service" if self.instance is None else "vllm-governor@.service"

    @property
    def started(self) -> str:
        """The unit that is started."""
        return "vllm-governor.service" if self.instance is None else f"vllm-governor@{self.instance}.service"

    @property
    def steered(self) -> str:
        """vLLM's unit."""
        return self.vllm_unit or ("vllm.service" if self.instance is None else f"vllm@{self.instance}.service")

    @property
    def below(self) -> str:
        """Of each of the daemon's folders, the part that is this instance's."""
        return "vllm-governor" if self.instance is None else f"vllm-governor/{self.instance}"

    def path(self, name: str) -> Path:
        """A path of the machine, under the root."""
        return self.root / name.lstrip("/")


@dataclass(frozen=True, slots=True)
class Placed:
    """One file: where, and its text, sealed."""

    path: Path
    text: str

    @property
    def state(self) -> State:
        """Of what is there. Raises OSError where it cannot be read."""
        try:
            there = self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return State.ABSENT
        if there == self.text:
            return State.SAME
        rest = there.rpartition(_SEAL)[0]
        return State.OURS if rest and there == sealed(rest) else State.CHANGED


def sealed(text: str) -> str:
    """With a last line by which a later change is seen."""
    return f"{text}{_SEAL}{hashlib.sha256(text.encode()).hexdigest()}\n"


def units() -> Traversable:
    """The folder of the shipped files: inside the installed package, or `systemd/` of a source tree."""
    inside = files(controller) / "supervision" / "units"
    return inside if inside.is_dir() else Path(controller.__file__).parents[1] / "systemd"


def unit_files(target: Target, program: Path, version: int | None) -> list[Placed]:
    """The unit, and what goes with it. `version` is systemd's, None where it is not known."""
    text = _shipped(target.unit).replace(str(PROGRAM), str(program))
    found = [_placed(target, f"/etc/systemd/system/{target.unit}", text)]
    if version is not None and version >= STEPS_FROM:
        steps = _shipped("restart-steps.conf")
        found.append(_placed(target, f"/etc/systemd/system/{target.unit}.d/restart-steps.conf", steps))
    return found


def drop_in(target: Target) -> Placed:
    """That of vLLM's own unit."""
    text = _shipped("vllm.service.d/governor.conf").replace("/etc/vllm-governor/token", f"/etc/{target.below}/token")
    return _placed(target, f"/etc/systemd/system/{target.steered}.d/governor.conf", text)


def shared(target: Target) -> list[Placed]:
    """Those that every unit of ours on the machine needs."""
    return [
        _placed(target, "/etc/sysusers.d/vllm-governor.conf", _shipped("vllm-governor.sysusers")),
        _placed(target, "/etc/tmpfiles.d/vllm-governor.conf", _shipped("vllm-governor.tmpfiles")),
    ]


def others(target: Target) -> bool:
    """Whether another unit of ours is on the machine."""
    single = target.path("/etc/systemd/system/vllm-governor.service")
    return other_instances(target) or (target.instance is not None and single.exists())


def other_instances(target: Target) -> bool:
    """Whether another instance is enabled: those share one file."""
    enabled = target.path("/etc/systemd/system").glob("*.wants/vllm-governor@*.service")
    return bool({path.name for path in enabled} - {target.started})


def program(hidden: Sequence[Path] = HIDDEN) -> Path:
    """This program. Raises SettingsError where the unit could not start it."""
    found = Path(sysconfig.get_path("scripts")) / "vllm-governor"
    if not found.exists():
        raise SettingsError(f"cannot install: there is no {found}; install the package, as pip install does")
    for path in (found.resolve(), Path(sys.base_prefix).resolve()):
        folder = next((folder for folder in hidden if path.is_relative_to(folder)), None)
        if folder is not None:
            raise SettingsError(
                f"cannot install: {path} lies in {folder}, which the unit hides from the daemon; install this package "
                f"for all users and with a Python of all users (/usr/bin/python3, not pyenv's), as in python3 -m venv "
                f"{PROGRAM.parents[1]}, and run its vllm-governor install"
            )
    return found


def _shipped(name: str) -> str:
    return units().joinpath(name).read_text(encoding="utf-8")


def _placed(target: Target, path: str, text: str) -> Placed:
    return Placed(target.path(path), sealed(text))
