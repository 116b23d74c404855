"""A real PostgreSQL as a child process: its data in a temporary folder, nothing of the machine touched.

Belongs here: starting, ending, an empty database. Never: what a test does with one.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from bench.ports import free_port
from bench.setup import debian
from tests.programs import need, without
from tests.waiting import PATIENCE_S

OWNER = "governor"
PASSWORD = "a-password-that-no-message-may-hold"
NOBODY = "nobody"
"""PostgreSQL refuses to run as root; then it runs as this user."""
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "jit": "off",
    "listen_addresses": "127.0.0.1",
    "log_min_messages": "warning",
}
END_S = 20.0


class PostgresServer:
    """Listens on a socket in its own folder, without a password, and on loopback, with one."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self.port = port
        self._numbers = count(1)

    def url(self, database: str) -> str:
        """As an operator would write it, over the socket."""
        return f"postgresql://{OWNER}@/{database}?host={self._folder}&port={self.port}"

    def network_url(self, database: str, password: str = PASSWORD) -> str:
        """As an operator would write it, over the network."""
        return f"postgresql://{OWNER}:{password}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The name of an empty one. Not to be called within an event loop."""
        name = f"history_{next(self._numbers)}"
        asyncio.run(self.execute(f"CREATE DATABASE {name} TEMPLATE template0"))
        return name

    async def execute(self, statement: str, database: str = "postgres") -> None:
        """Run a statement past the store."""
        import asyncpg

        connection = await asyncpg.connect(self.url(database))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    async def is_ready(self) -> bool:
        """Whether it takes connections."""
        import asyncpg

        try:
            await (await asyncpg.connect(self.url("postgres"), timeout=10)).close()
        except (OSError, asyncpg.PostgresError):
            return False
        return True


@contextmanager
def running() -> Iterator[PostgresServer]:
    """A server until the block ends. The test skips where there is none."""
    found = need("initdb"), need("postgres")
    # Not under pytest's own folder, which only its user may enter.
    with tempfile.TemporaryDirectory(prefix="governor-pg-") as name:
        folder = Path(name)
        if os.geteuid() == 0:
            shutil.chown(folder, NOBODY, "nogroup")
        root, initdb, postgres = _readable(folder, *found)
        environment = _environment(root)
        _initialise(folder, initdb, environment)
        with (folder / "log").open("wb") as log:
            server = PostgresServer(folder, free_port())
            process = subprocess.Popen(
                _as_owner([str(postgres), "-D", str(folder / "data"), "-k", name, *_options(server.port)]),
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            _await(server, process, folder / "log")
            yield server
        finally:
            _end(process)


def _options(port: int) -> list[str]:
    return [word for name, value in {**SETTINGS, "port": str(port)}.items() for word in ("-c", f"{name}={value}")]


def _as_owner(command: Sequence[str]) -> list[str]:
    """The command, ended at once when the tests are killed; root runs it as another user."""
    user = ["--reuid", NOBODY, "--regid", "nogroup", "--clear-groups"] if os.geteuid() == 0 else []
    return ["setpriv", *user, "--pdeathsig", "QUIT", *command]


def _readable(folder: Path, initdb: Path, postgres: Path) -> tuple[Path | None, Path, Path]:
    """Where their package was extracted to, None for an installed one, and the programs: copies of them, with all that
    belongs to them, where the server's user cannot read them.
    """
    root = debian.extracted_root(initdb)
    if root is None or subprocess.run(_as_owner(["test", "-x", str(initdb)]), check=False).returncode == 0:
        return root, initdb, postgres
    copy = folder / "root"
    shutil.copytree(root, copy, symlinks=True, ignore=shutil.ignore_patterns("doc", "man", "locale", "bitcode"))
    return copy, copy / initdb.relative_to(root), copy / postgres.relative_to(root)


def _environment(root: Path | None) -> dict[str, str]:
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC"}
    if root is not None:
        environment["LD_LIBRARY_PATH"] = ":".join(str(path) for path in debian.libraries(root))
    return environment


def _initialise(folder: Path, initdb: Path, environment: dict[str, str]) -> None:
    secret = folder / "password"
    secret.write_text(PASSWORD)
    command = [str(initdb), "-D", str(folder / "data"), "-U", OWNER, "--pwfile", str(secret), "-N", "-E", "UTF8"]
    command += ["--locale=C", "--auth-local=trust", "--auth-host=scram-sha-256"]
    done = subprocess.run(
        _as_owner(command), env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    if done.returncode != 0:
        without(f"cannot start PostgreSQL: initdb says {done.stderr.strip()[-300:]}")


def _await(server: PostgresServer, process: subprocess.Popen[bytes], log: Path) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not asyncio.run(server.is_ready()):
        assert process.poll() is None, log.read_text()[-500:]
        assert time.monotonic() < until_s, f"PostgreSQL is not ready: {log.read_text()[-500:]}"
        time.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGINT is its fast shutdown: clients are cut off."""
    process.send_signal(2)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(END_S)
