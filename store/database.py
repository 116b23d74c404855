"""Opening the database: the URL, SQLite's pragmas and transactions, PostgreSQL's time limits, what a failure means.

Belongs here: the engine. Never: rows; what the schema's version asks for is store/schema.py's, what is wrong with a
SQLite file store/health.py's.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from domain.errors import HistoryUnavailable, SettingsError
from store import health, unwritable
from store.schema import NewerSchema, bring_up, is_current

BACKENDS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg"}
"""Database to its asynchronous driver."""
BEGIN = "sqlite_begin"
"""Execution option: the statement that begins a SQLite transaction; empty: none, each statement is its own."""
SQLITE_PAGE_BYTES = 4096
READERS_CACHE = "cache_size=-16384"
"""16 MiB for one that only reads, a command: a year is then added up without temporary files on the disk."""
WRITERS_CACHE = "cache_size=-512"
"""512 KiB, a quarter of the default, for the daemon: it keeps what it once used, and neither its writes nor its queries
take longer for it.
"""
FILE_MODE = 0o640
"""Of a new SQLite file, less the umask: addresses, labels and who did what are no business of every user."""
MB = 1024 * 1024
"""As the settings count."""
CONNECT_TIMEOUT_S = 5.0
COMMAND_TIMEOUT_S = 30.0
IDLE_TIMEOUT_S = 60.0
"""PostgreSQL ends a transaction whose daemon went away in the middle, and with it its locks."""
POOL = {"pool_pre_ping": True, "pool_size": 2, "max_overflow": 4, "pool_timeout": CONNECT_TIMEOUT_S}
"""Many daemons share one PostgreSQL and its `max_connections` of 100."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a database may take. `file_max_bytes` and `wal_max_bytes` are SQLite's; None: no limit."""

    file_max_bytes: int | None = None
    wal_max_bytes: int | None = 64 * 1024 * 1024
    """To this size the write-ahead log is cut back after a checkpoint."""
    busy_timeout_s: float = 1.0
    """So long a statement waits for another one's lock, then it says so."""


def database_url(text: str) -> str:
    """A SQLAlchemy URL as it is; anything else is the path of a SQLite file. Raises SettingsError."""
    if "://" not in text:
        return URL.create("sqlite+aiosqlite", database=str(Path(text).expanduser())).render_as_string(False)
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise SettingsError("cannot use the database URL: it is not of the form driver://user@host/name") from error
    backend = {"postgres": "postgresql"}.get(url.get_backend_name(), url.get_backend_name())
    if backend not in BACKENDS:
        known = ", ".join(BACKENDS)
        raise SettingsError(f"cannot use a {backend} database for the history: it takes {known}")
    return url.set(drivername=BACKENDS[backend]).render_as_string(False)


def sqlite_path(url: str) -> Path | None:
    """The file behind a SQLite URL, None for another database or for memory. Behind a link it is the one that the link
    names: there SQLite keeps what belongs to it.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database == ":memory:":
        return None
    path = Path(parsed.database)
    try:
        return path.resolve() if path.is_symlink() else path
    except (OSError, RuntimeError):  # links that name each other
        return path


def create(url: str, limits: Limits, *, to_read: bool = False) -> AsyncEngine:
    """An engine for `url`. On SQLite a transaction takes the write lock at its start (`BEGIN IMMEDIATE`): one that
    read first and then wrote could not wait for another writer. Readers ask for a plain BEGIN by the option `BEGIN`.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return _create_postgresql(parsed, limits)
    engine = create_async_engine(parsed, json_serializer=to_json_text, **_at_rest(url) if to_read else {})
    pragmas = (*_pragmas(limits), READERS_CACHE if to_read else WRITERS_CACHE)
    script = "".join(f"PRAGMA {pragma};" for pragma in pragmas)

    def connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # or the driver would begin transactions of its own, at the first write
        connection.run_async(lambda driver: driver.executescript(script))  # one way to the driver's thread and back

    event.listen(engine.sync_engine, "connect", connected)
    event.listen(engine.sync_engine, "begin", _begin)
    return engine


def _at_rest(url: str) -> dict[str, Any]:
    """How to connect to a file that this user can only read, and nobody writes; nothing for any other."""
    path = sqlite_path(url)
    if path is None or not unwritable.at_rest(path):
        return {}

    async def connect() -> Any:
        import aiosqlite

        return await aiosqlite.connect(unwritable.read_only_uri(path), uri=True)

    return {"async_creator": connect}


def _pragmas(limits: Limits) -> list[str]:
    # FULL: in WAL mode the default does not wait for the disk at a commit.
    pragmas = ["synchronous=FULL", "foreign_keys=ON", f"busy_timeout={round(limits.busy_timeout_s * 1000)}"]
    if limits.wal_max_bytes is not None:
        pragmas.append(f"journal_size_limit={limits.wal_max_bytes}")
    if limits.file_max_bytes is not None:
        pragmas.append(f"max_page_count={max(limits.file_max_bytes // SQLITE_PAGE_BYTES, 1)}")
    return pragmas


def _begin(connection: Connection) -> None:
    statement = connection.get_execution_options().get(BEGIN, "BEGIN IMMEDIATE")
    if statement:
        connection.exec_driver_sql(statement)


def _create_postgresql(url: URL, limits: Limits) -> AsyncEngine:
    # asyncpg reads a URL as libpq does (sslmode, a socket's directory as host); SQLAlchemy would pass its parts on as
    # arguments of other names.
    dsn = url.set(drivername="postgresql").render_as_string(False)
    settings = {
        "application_name": "vllm-governor",
        "lock_timeout": str(round(limits.busy_timeout_s * 1000)),
        "idle_in_transaction_session_timeout": str(round(IDLE_TIMEOUT_S * 1000)),
    }

    async def connect() -> Any:
        import asyncpg  # only where it is used: a daemon keeps what it once loaded

        try:
            return await asyncpg.connect(
                dsn, timeout=CONNECT_TIMEOUT_S, command_timeout=COMMAND_TIMEOUT_S, server_settings=settings
            )
        except TimeoutError as error:
            raise TimeoutError(f"no connection within {CONNECT_TIMEOUT_S:g} s") from error
        except (asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
            raise ConnectionError(str(error)) from error  # SQLAlchemy leaves these as they are

    # The engine's own URL names the place in messages and nothing else: without what a query may hold.
    return create_async_engine(url.set(query={}), async_creator=connect, json_serializer=to_json_text, **POOL)


def to_json_text(value: Any) -> str:
    """JSON as every database takes it: what is not a finite number is null."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, (list, tuple)) else value


class Database:
    """One database as one node uses it: every row it writes carries `node`. Its methods raise HistoryUnavailable."""

    def __init__(self, url: str, node: str, limits: Limits | None = None, *, to_read: bool = False) -> None:
        """`to_read`: no more than that is wanted, so the right to write need not be there."""
        self.node = node
        self.engine = create(url, limits or Limits(), to_read=to_read)
        self._write = async_sessionmaker(self.engine, expire_on_commit=False)
        self._read = async_sessionmaker(self.engine.execution_options(**{BEGIN: "BEGIN"}), expire_on_commit=False)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """A session that writes; it is committed at the end, and then it is on disk."""
        with _told(self.engine):
            async with self._write.begin() as session:
                yield session

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncSession]:
        """A session that reads, and neither waits for a writer nor keeps one waiting."""
        with _told(self.engine):
            async with self._read.begin() as session:
                yield session

    @asynccontextmanager
    async def outside(self) -> AsyncIterator[AsyncConnection]:
        """A SQLite connection outside of any transaction, for what must not be in one: VACUUM, some pragmas."""
        with _told(self.engine):
            async with self.engine.execution_options(**{BEGIN: ""}).connect() as connection:
                yield connection

    @property
    def where(self) -> str:
        """The file or the URL without its password, for messages."""
        return where(self.engine)


@contextmanager
def _told(engine: AsyncEngine) -> Iterator[None]:
    """Errors of the database in our words. The cause stays with them: store/health.py classifies it."""
    try:
        yield
    except (SQLAlchemyError, OSError, ValueError) as error:
        # ValueError: a row written by a newer version holds a word that this one does not know.
        raise HistoryUnavailable(f"cannot use the history at {where(engine)}: {first_line(error)}") from error


def where(engine: AsyncEngine) -> str:
    """The file or the URL without its password, for messages."""
    path = sqlite_path(str(engine.url))
    url = engine.url.set(drivername=engine.url.get_backend_name())
    return str(path or url.render_as_string(hide_password=True))


async def migrate(engine: AsyncEngine) -> bool:
    """Bring the schema to the newest version; True: the database was empty. Raises HistoryUnavailable naming the place
    and what it needs, and NewerSchema.
    """
    path = sqlite_path(str(engine.url))
    was_empty = False
    try:
        if path is not None:
            await asyncio.to_thread(_make, path)
            await _use_wal(engine)
        if not await _is_current(engine):
            async with engine.begin() as connection:
                was_empty = await connection.run_sync(bring_up)
    except NewerSchema as error:
        raise NewerSchema(
            f"cannot open the history at {where(engine)}: a newer vllm-governor wrote it "
            f"({error}); use that one, or name another file"
        ) from error
    except (OSError, SQLAlchemyError) as error:
        problem = None if path is None else await asyncio.to_thread(health.directory_problem, path)
        why = problem or f"cannot open the history at {where(engine)}: {_remedy(error, path)}"
        raise HistoryUnavailable(why) from error
    return was_empty


def _make(path: Path) -> None:
    """Where there is none: SQLite would let everybody read it, and gives the files beside it the same rights."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))


async def _is_current(engine: AsyncEngine) -> bool:
    """Asked without the write lock, so that a database that another process is writing to opens at once."""
    async with engine.execution_options(**{BEGIN: "BEGIN"}).connect() as connection:
        return await connection.run_sync(is_current)


async def _use_wal(engine: AsyncEngine) -> None:
    """Kept in the file: readers never change it."""
    async with engine.execution_options(**{BEGIN: ""}).connect() as connection:
        mode = (await connection.exec_driver_sql("PRAGMA journal_mode=WAL")).scalar_one()
    if mode not in ("wal", "memory"):
        raise OSError(f"its file system allows no write-ahead log (journal mode {mode})")


def _remedy(error: BaseException, path: Path | None) -> str:
    if path is None:
        return f"{first_line(error)}; the server must run, and the user must own the database"
    trouble = health.classify(error, path)
    if trouble is health.Trouble.CORRUPT:
        return f"{first_line(error)}; move it and its -wal and -shm away together, or restore them from a backup"
    if trouble is health.Trouble.LOCKED:
        return f"{first_line(error)}; another process holds it: end that one, or wait"
    return f"{first_line(error)}; its directory must exist and be writable"


def first_line(error: BaseException) -> str:
    """What the driver says, without what SQLAlchemy adds: the SQL, the name of asyncpg's class."""
    original = getattr(error, "orig", None) or error
    return re.sub(r"^<class '[^']*'>: ", "", str(original) or type(original).__name__).splitlines()[0]
