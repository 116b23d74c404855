"""Which of the three a database needs: made new, left as it is, or brought up. What the migrations do to rows is in
tests/contract/store/test_migrations.py.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine, inspect

from store import schema


def _empty(folder: Path, name: str) -> Engine:
    return create_engine(f"sqlite:///{folder / name}")


def test_the_head_is_the_newest_revision_there_is() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(schema.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_current_head() == schema.HEAD


def test_an_older_database_is_brought_up_and_keeps_what_it_holds(tmp_path: Path) -> None:
    """Older: Alembic's table is there and names no revision, as before the first one."""
    engine = _empty(tmp_path, "old.db")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        connection.exec_driver_sql("CREATE TABLE theirs (x INTEGER)")
    with engine.begin() as connection:
        schema.bring_up(connection)
        tables = set(inspect(connection).get_table_names())
        assert tables >= {"theirs", "runs", "decisions"}
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").all() == [(schema.HEAD,)]


def test_neither_a_new_nor_a_current_sqlite_database_loads_alembic_or_asyncpg(tmp_path: Path) -> None:
    """Alembic takes 12 MB, and a daemon keeps what it once loaded."""
    code = (
        "import asyncio, sys\n"
        "from store.database import database_url\n"
        "from store.history import History\n"
        "async def twice():\n"
        "    for _ in range(2):\n"
        "        history = History(database_url(sys.argv[1]))\n"
        "        await history.open()\n"
        "        await history.close()\n"
        "asyncio.run(twice())\n"
        "print(*{name.split('.')[0] for name in sys.modules} & {'alembic', 'mako', 'asyncpg'})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "h.db")], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""
