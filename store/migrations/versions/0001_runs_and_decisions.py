"""Runs and decisions.

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("node", sa.String(255), nullable=False),
        sa.Column("engine_url", sa.Text, nullable=False),
        sa.Column("boot_id", sa.Text, nullable=False),
        sa.Column("vllm_version", sa.String(64), nullable=False),
        sa.Column("plugin_version", sa.String(64), nullable=False),
        sa.Column("envelope", sa.JSON, nullable=False),
    )
    op.create_table(
        "decisions",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id")),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("policy", sa.String(64), nullable=False),
        sa.Column("knob", sa.String(64), nullable=False),
        sa.Column("old", sa.Float),
        sa.Column("wanted", sa.Float),
        sa.Column("requested", sa.Float),
        sa.Column("observed", sa.Float),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(64), nullable=False),
        sa.Column("sentence", sa.Text, nullable=False),
        sa.Column("evidence", sa.JSON, nullable=False),
        sa.Column("guards", sa.JSON, nullable=False),
        sa.Column("error", sa.Text),
    )
    op.create_index("ix_decisions_at", "decisions", ["at"])
    op.create_index("ix_decisions_knob_at", "decisions", ["knob", "at"])
