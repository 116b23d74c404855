"""What the daemon holds in memory for ever is what `run` imports."""

from __future__ import annotations

import subprocess
import sys


def test_the_daemon_loads_neither_the_table_drawing_nor_the_migrations() -> None:
    code = (
        "import sys, controller.__main__, controller.app\n"
        "print(*{name.split('.')[0] for name in sys.modules} & {'alembic', 'mako', 'rich', 'pygments'})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ""


def test_a_command_that_only_asks_waits_for_no_policy_and_no_settings() -> None:
    code = (
        "import sys, controller.__main__\n"
        "print(*{'policies.registry', 'pydantic', 'pydantic_settings', 'aiohttp', 'apscheduler'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ""
