"""The datagrams of sd_notify(3), over real sockets."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from controller.supervision.notifier import Notifier
from tests.manager import Manager


@pytest.mark.parametrize("place", [lambda folder: str(folder / "notify"), lambda _: f"@governor-{uuid4().hex}"])
def test_a_word_arrives_as_one_datagram_at_a_path_and_at_an_abstract_name(
    tmp_path: Path, place: Callable[[Path], str]
) -> None:
    with Manager(place(tmp_path)) as manager:
        notifier = Notifier(manager.environment())
        notifier.tell(READY=1, STATUS="mode auto")
        assert manager.read() == [{"READY": "1", "STATUS": "mode auto"}]
        notifier.close()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\0", "\x1b[31m", "\u2028"])
def test_no_text_of_others_makes_a_second_assignment(tmp_path: Path, end: str) -> None:
    with Manager(tmp_path / "notify") as manager:
        notifier = Notifier(manager.environment())
        notifier.tell(STATUS=f"the engine said{end}MAINPID=1", WATCHDOG=1)
        (told,) = manager.read()
        assert told.keys() == {"STATUS", "WATCHDOG"}
        assert told["STATUS"].isprintable()
        notifier.close()


def test_a_long_text_is_cut_and_not_lost(tmp_path: Path) -> None:
    with Manager(tmp_path / "notify") as manager:
        notifier = Notifier(manager.environment())
        notifier.tell(STATUS="€" * 100_000)
        assert len(manager.read()[0]["STATUS"]) == 500
        notifier.close()


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}])
def test_without_a_manager_no_socket_is_opened(environment: dict[str, str]) -> None:
    before = len(os.listdir("/proc/self/fd"))
    Notifier(environment).tell(READY=1)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_manager_that_is_gone_and_comes_back_is_named_once_each(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    path = tmp_path / "notify"
    notifier = Notifier({"NOTIFY_SOCKET": str(path)})
    for _ in range(3):
        notifier.tell(WATCHDOG=1)
    with Manager(path) as manager:
        notifier.tell(WATCHDOG=1)
        assert manager.read() == [{"WATCHDOG": "1"}]
    notifier.close()
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "service manager: cannot tell it anything: No such file or directory",
        "service manager: recovered",
    ]


def test_a_manager_that_reads_nothing_holds_nobody_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
        deaf.bind(path)
        notifier = Notifier({"NOTIFY_SOCKET": path})
        for _ in range(2000):
            notifier.tell(WATCHDOG=1)
            if caplog.records:
                break
        notifier.close()
    assert "cannot tell it anything" in caplog.text, "its queue never filled"


def test_a_socket_that_cannot_be_meant_is_named(caplog: pytest.LogCaptureFixture) -> None:
    Notifier({"NOTIFY_SOCKET": "vsock:2:1234"}).tell(READY=1)
    assert "NOTIFY_SOCKET = 'vsock:2:1234' is neither a path nor @name" in caplog.text
