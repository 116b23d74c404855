"""The ledger is summed by setting, and its notes are found, without reading all of its rows.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_ledger_setting", "ledger", ["setting_key", "at", "node", "seconds"])
    noted = sa.text("note IS NOT NULL")
    op.create_index("ix_ledger_note", "ledger", ["at"], sqlite_where=noted, postgresql_where=noted)
