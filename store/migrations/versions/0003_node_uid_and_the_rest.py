"""Each row knows its node; readings, ledger, alerts, outbox, silences, audit, quarantine.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
ONCE = {"sqlite_autoincrement": True}


def upgrade() -> None:
    # SQLite gives a number once only where the table was made so; PostgreSQL always does.
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    with op.batch_alter_table("decisions", recreate="always" if on_sqlite else "never", table_kwargs=ONCE) as decisions:
        decisions.add_column(sa.Column("uid", sa.String(32)))
        decisions.add_column(_node())
        decisions.add_column(sa.Column("verdict", sa.String(16)))
    op.create_index("ix_decisions_uid", "decisions", ["uid"], unique=True)
    with op.batch_alter_table("recordings") as recordings:
        recordings.add_column(_node())
    for table in ("decisions", "recordings"):
        op.execute(
            f"UPDATE {table} SET node = (SELECT node FROM runs WHERE runs.id = {table}.run_id) WHERE run_id IS NOT NULL"  # noqa: S608
        )
    stored = sa.table("decisions", sa.column("outcome", sa.JSON), sa.column("verdict", sa.String))
    judged = stored.update().where(stored.c.outcome.is_not(sa.null()))
    op.execute(judged.values(verdict=stored.c.outcome["verdict"].as_string()))
    op.drop_index("ix_decisions_knob_at", "decisions")
    op.create_index("ix_decisions_run", "decisions", ["run_id", "knob", "at"])
    sought = ["id", "at", "knob", "policy", "status", "reason", "verdict", "node"]
    op.create_index("ix_decisions_find", "decisions", sought)
    op.create_index("ix_recordings_node", "recordings", ["node", "id"])
    op.create_index("ix_recordings_run", "recordings", ["run_id"])
    # A copy, not a rename: PostgreSQL would leave the key its name, which the new table's has to have.
    op.execute("CREATE TABLE kept_before AS SELECT * FROM kept")
    op.drop_table("kept")
    op.create_table(
        "kept",
        sa.Column("node", sa.String(255), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("at", TIME, nullable=False),
        sa.Column("value", sa.JSON, nullable=False),
    )
    op.execute("INSERT INTO kept (node, name, at, value) SELECT '', name, at, value FROM kept_before")
    op.drop_table("kept_before")
    op.create_table(
        "readings",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("node", sa.String(255), nullable=False),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id")),
        sa.Column("resolution_s", sa.Integer, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("samples", sa.Integer, nullable=False),
        sa.Column("means", sa.LargeBinary, nullable=False),
        sa.Column("highs", sa.LargeBinary),
        sa.UniqueConstraint("node", "resolution_s", "at", name="uq_readings"),
        **ONCE,
    )
    op.create_index("ix_readings_resolution_at", "readings", ["resolution_s", "at"])
    op.create_index("ix_readings_run", "readings", ["run_id"])
    op.create_table(
        "ledger",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("node", sa.String(255), nullable=False),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id")),
        sa.Column("resolution_s", sa.Integer, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("setting_key", sa.Text, nullable=False),
        sa.Column("energy_source", sa.String(16), nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("gap_s", sa.Float, nullable=False),
        sa.Column("idle_s", sa.Float, nullable=False),
        *(
            sa.Column(name, sa.Float)
            for name in (
                "gpu_s",
                "memory_byte_s",
                "energy_j",
                "idle_energy_j",
                "requests",
                "prompt_tokens",
                "generation_tokens",
                "response_bytes",
                "cache_queries",
                "cache_hits",
            )
        ),
        sa.Column("note", sa.Text),
        sa.UniqueConstraint("node", "resolution_s", "at", "setting_key", "energy_source", name="uq_ledger"),
    )
    op.create_index("ix_ledger_at", "ledger", ["at"])
    op.create_index("ix_ledger_run", "ledger", ["run_id"])
    op.create_table(
        "alerts",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("node", sa.String(255), nullable=False),
        sa.Column("fingerprint", sa.String(32), nullable=False),
        sa.Column("rule", sa.String(128), nullable=False),
        sa.Column("severity", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("starts_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.Column("ends_at", TIME),
        sa.Column("value", sa.Float),
        sa.Column("labels", sa.JSON, nullable=False),
        sa.Column("annotations", sa.JSON, nullable=False),
        sa.UniqueConstraint("node", "fingerprint", "starts_at", name="uq_alerts"),
        **ONCE,
    )
    op.create_index("ix_alerts_state", "alerts", ["node", "state"])
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("uid", sa.String(64), nullable=False),
        sa.Column("node", sa.String(255), nullable=False),
        sa.Column("receiver", sa.String(128), nullable=False),
        sa.Column("group_key", sa.Text, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("not_before", TIME),
        sa.Column("delivered_at", TIME),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("body", sa.JSON, nullable=False),
        sa.UniqueConstraint("uid", name="uq_deliveries_uid"),
        **ONCE,
    )
    op.create_index("ix_deliveries_due", "deliveries", ["node", "receiver", "status", "id"])
    op.create_table(
        "silences",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("node", sa.String(255), nullable=False),
        sa.Column("matchers", sa.JSON, nullable=False),
        sa.Column("starts_at", TIME, nullable=False),
        sa.Column("ends_at", TIME, nullable=False),
        sa.Column("created_by", sa.String(255), nullable=False),
        sa.Column("comment", sa.Text, nullable=False),
        **ONCE,
    )
    op.create_table(
        "actions",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("node", sa.String(255), nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("actor", sa.String(255), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.Column("result", sa.Text, nullable=False),
        sa.Column("request_id", sa.String(64)),
        **ONCE,
    )
    op.create_index("ix_actions_at", "actions", ["at"])
    op.create_table(
        "quarantine",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("moved_at", TIME, nullable=False),
        sa.Column("origin", sa.String(64), nullable=False),
        sa.Column("row", sa.JSON, nullable=False),
    )


def _node() -> sa.Column[str]:
    return sa.Column("node", sa.String(255), nullable=False, server_default="")
