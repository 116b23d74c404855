"""SQLite adds up a year of the ledger in the order of an index, without sorting its rows.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

FIGURES = (
    "gpu_s", "memory_byte_s", "energy_j", "idle_energy_j", "requests", "prompt_tokens", "generation_tokens",
    "response_bytes", "cache_queries", "cache_hits",
)  # fmt: skip


def upgrade() -> None:
    if op.get_bind().dialect.name != "sqlite":
        return
    unknown = " + ".join(f"(CASE WHEN {name} IS NULL THEN {1 << bit} ELSE 0 END)" for bit, name in enumerate(FIGURES))
    columns: list[str | sa.TextClause] = [
        "node",
        "energy_source",
        sa.text(unknown),
        "at",
        "resolution_s",
        "seconds",
        "gap_s",
        "idle_s",
        *FIGURES,
    ]
    op.create_index("ix_ledger_kind", "ledger", columns)
