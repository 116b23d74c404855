"""The tables. A change here needs a migration beside it (store/migrations/versions).

Several daemons may share one database, so every row knows its node. Numbers (`id`) are for people and for order: the
clock may have been wrong, so the newest row is the one with the highest number, not the latest time.

Belongs here: columns and their meaning. Never: queries.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import (
    DDL,
    JSON,
    BigInteger,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Text,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from domain.ledger import FIGURES, TIMES
from store.columns import UtcDateTime, Words
from store.packed import Packed


class Base(DeclarativeBase):
    """All tables of the history."""

    # Said here because SQLAlchemy 2.1 changed what a bare float stands for; the migrations say Float.
    type_annotation_map: ClassVar[dict[Any, Any]] = {float: Float()}


NUMBER = BigInteger().with_variant(Integer, "sqlite")
"""Of rows that come each second: a fleet of a hundred would count past 2^31 within the year."""
NODE = Words(255)
"""`store.node` of the daemon that wrote the row; empty in rows from before there was one."""
NOTED = text("note IS NOT NULL")
UNKNOWN = " + ".join(f"(CASE WHEN {name} IS NULL THEN {1 << bit} ELSE 0 END)" for bit, name in enumerate(FIGURES))
"""Which figures of a ledger's row are not known, as one number. Text: an index serves just the expression it has."""
ONCE: dict[str, Any] = {"sqlite_autoincrement": True}
"""The number of a row that is gone is never given again, as PostgreSQL has it: people and marks go by it."""


class Run(Base):
    """One boot of one engine, as long as one daemon watched it."""

    __tablename__ = "runs"

    id: Mapped[int] = mapped_column(primary_key=True)
    started_at: Mapped[datetime] = mapped_column(UtcDateTime)
    node: Mapped[str] = mapped_column(NODE)
    engine_url: Mapped[str] = mapped_column(Words())
    boot_id: Mapped[str] = mapped_column(Words())
    vllm_version: Mapped[str] = mapped_column(Words(64))
    plugin_version: Mapped[str] = mapped_column(Words(64))
    envelope: Mapped[dict[str, Any]] = mapped_column(JSON)
    """The engine's start-up value of each knob; null: no limit."""


class DecisionRow(Base):
    """One decision; the columns are those of `domain.decision.Decision`."""

    __tablename__ = "decisions"
    __table_args__ = (
        Index("ix_decisions_at", "at"),
        Index("ix_decisions_uid", "uid", unique=True),
        # The values in force at a moment: the newest row of a knob within a run.
        Index("ix_decisions_run", "run_id", "knob", "at"),
        # All that decisions are looked for by, newest first, without reading the rows themselves (store/decisions.py).
        Index("ix_decisions_find", "id", "at", "knob", "policy", "status", "reason", "verdict", "node"),
        ONCE,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    uid: Mapped[str | None] = mapped_column(String(32))
    """Given by the daemon before the row is written, so that a write may be repeated; null in older rows."""
    node: Mapped[str] = mapped_column(NODE, server_default="")
    run_id: Mapped[int | None] = mapped_column(ForeignKey("runs.id"))
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    mode: Mapped[str] = mapped_column(Words(16))
    policy: Mapped[str] = mapped_column(Words(64))
    knob: Mapped[str] = mapped_column(Words(64))
    old: Mapped[float | None]
    wanted: Mapped[float | None]
    requested: Mapped[float | None]
    observed: Mapped[float | None]
    status: Mapped[str] = mapped_column(Words(16))
    reason: Mapped[str] = mapped_column(Words(64))
    sentence: Mapped[str] = mapped_column(Words())
    evidence: Mapped[dict[str, Any]] = mapped_column(JSON)
    guards: Mapped[list[str]] = mapped_column(JSON)
    error: Mapped[str | None] = mapped_column(Words())
    diagnoses: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    """Null in rows that were written before there were any."""
    outcome: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """The fields of `domain.outcome.Outcome`; null until the change is judged."""
    verdict: Mapped[str | None] = mapped_column(Words(16))
    """The outcome's, to look for it."""


class RecordingRow(Base):
    """A chunk of the pictures that the policies saw, one a tick, for replay."""

    __tablename__ = "recordings"
    __table_args__ = (
        Index("ix_recordings_to_at", "to_at"),
        # A node's newest chunks are counted without reading the chunks.
        Index("ix_recordings_node", "node", "id"),
        Index("ix_recordings_run", "run_id"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    node: Mapped[str] = mapped_column(NODE, server_default="")
    run_id: Mapped[int | None] = mapped_column(ForeignKey("runs.id"))
    from_at: Mapped[datetime] = mapped_column(UtcDateTime)
    to_at: Mapped[datetime] = mapped_column(UtcDateTime)
    ticks: Mapped[int]
    body: Mapped[bytes] = mapped_column(LargeBinary)
    """zlib over JSON lines; the writer knows what they mean (controller/history/view_codec.py)."""


class KeptRow(Base):
    """What the daemon must still know after a restart: a few values by name."""

    __tablename__ = "kept"

    node: Mapped[str] = mapped_column(NODE, primary_key=True)
    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    value: Mapped[dict[str, Any]] = mapped_column(JSON)


class ReadingRow(Base):
    """The signals of one stretch of time: a tick, rolled up to minutes and hours as it grows old."""

    __tablename__ = "readings"
    __table_args__ = (
        UniqueConstraint("node", "resolution_s", "at", name="uq_readings"),
        Index("ix_readings_resolution_at", "resolution_s", "at"),
        Index("ix_readings_run", "run_id"),
        ONCE,
    )

    id: Mapped[int] = mapped_column(NUMBER, primary_key=True)
    node: Mapped[str] = mapped_column(NODE)
    run_id: Mapped[int | None] = mapped_column(ForeignKey("runs.id"))
    resolution_s: Mapped[int]
    """1 (as it was read), 60 or 3600."""
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    """When the stretch begins."""
    samples: Mapped[int]
    means: Mapped[dict[str, Any]] = mapped_column(Packed)
    """Signal to its mean over the samples that knew it; absent: none did. A knob as `knob:NAME`, the value last in
    force, null for no limit.
    """
    highs: Mapped[dict[str, Any] | None] = mapped_column(Packed)
    """The highest of each that was not the same all the time; null where none was."""


class LedgerRow(Base):
    """What was used and what was done in a stretch of time under one setting of the knobs; see `domain.ledger`."""

    __tablename__ = "ledger"
    __table_args__ = (
        UniqueConstraint("node", "resolution_s", "at", "setting_key", "energy_source", name="uq_ledger"),
        Index("ix_ledger_at", "at"),
        Index("ix_ledger_run", "run_id"),
        # How long each setting was in force, and the rows of one, without reading the others.
        Index("ix_ledger_setting", "setting_key", "at", "node", "seconds"),
        Index("ix_ledger_note", "at", sqlite_where=NOTED).ddl_if(dialect="sqlite"),
        # A year is added up from it in order. SQLite would else sort all rows by kind; PostgreSQL does not sort.
        Index("ix_ledger_kind", "node", "energy_source", text(UNKNOWN), "at", "resolution_s", *TIMES, *FIGURES).ddl_if(
            dialect="sqlite"
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    node: Mapped[str] = mapped_column(NODE)
    run_id: Mapped[int | None] = mapped_column(ForeignKey("runs.id"))
    resolution_s: Mapped[int]
    """60, 3600 or 86400: the minute, hour or day of UTC that the entry lies in; it covers `seconds` of it."""
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    """Where the entry begins within that stretch."""
    setting_key: Mapped[str] = mapped_column(Text)
    """The setting as canonical JSON: knob to value, null for no limit."""
    energy_source: Mapped[str] = mapped_column(Words(16))
    seconds: Mapped[float]
    gap_s: Mapped[float]
    idle_s: Mapped[float]
    gpu_s: Mapped[float | None]
    memory_byte_s: Mapped[float | None]
    energy_j: Mapped[float | None]
    idle_energy_j: Mapped[float | None]
    requests: Mapped[float | None]
    prompt_tokens: Mapped[float | None]
    generation_tokens: Mapped[float | None]
    response_bytes: Mapped[float | None]
    cache_queries: Mapped[float | None]
    cache_hits: Mapped[float | None]
    note: Mapped[str | None] = mapped_column(Words())
    """Why the figures do not follow on from those before: a counter began anew, the history was set aside."""


# As the index of this name; said with `postgresql_where` it would load that dialect, 2 MB in every daemon.
NOTES = DDL(  # type: ignore[no-untyped-call]
    "CREATE INDEX ix_ledger_note ON ledger (at) WHERE note IS NOT NULL"
)
event.listen(Base.metadata.tables["ledger"], "after_create", NOTES.execute_if(dialect="postgresql"))


class AlertRow(Base):
    """One incident of one rule: from the moment it began to hold until it was resolved."""

    __tablename__ = "alerts"
    __table_args__ = (
        UniqueConstraint("node", "fingerprint", "starts_at", name="uq_alerts"),
        Index("ix_alerts_state", "node", "state"),
        ONCE,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    node: Mapped[str] = mapped_column(NODE)
    fingerprint: Mapped[str] = mapped_column(String(32))
    rule: Mapped[str] = mapped_column(Words(128))
    severity: Mapped[str] = mapped_column(Words(16))
    state: Mapped[str] = mapped_column(Words(16))
    starts_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)
    ends_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    value: Mapped[float | None]
    labels: Mapped[dict[str, Any]] = mapped_column(JSON)
    annotations: Mapped[dict[str, Any]] = mapped_column(JSON)


class DeliveryRow(Base):
    """The outbox: one notification for one receiver, written with the alert's change and taken off by the sender."""

    __tablename__ = "deliveries"
    __table_args__ = (
        UniqueConstraint("uid", name="uq_deliveries_uid"),
        Index("ix_deliveries_due", "node", "receiver", "status", "id"),
        ONCE,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    uid: Mapped[str] = mapped_column(String(64))
    node: Mapped[str] = mapped_column(NODE)
    receiver: Mapped[str] = mapped_column(Words(128))
    group_key: Mapped[str] = mapped_column(Words())
    status: Mapped[str] = mapped_column(Words(16))
    """pending, delivered or failed (given up; kept so that it can be seen)."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    not_before: Mapped[datetime | None] = mapped_column(UtcDateTime)
    delivered_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    attempts: Mapped[int]
    error: Mapped[str | None] = mapped_column(Words())
    body: Mapped[dict[str, Any]] = mapped_column(JSON)
    """The notification as the writer of alerts/ knows it: never a secret."""


class SilenceRow(Base):
    """No notification for alerts whose labels match, for a time."""

    __tablename__ = "silences"
    __table_args__ = (ONCE,)

    id: Mapped[int] = mapped_column(primary_key=True)
    node: Mapped[str] = mapped_column(NODE)
    matchers: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    starts_at: Mapped[datetime] = mapped_column(UtcDateTime)
    ends_at: Mapped[datetime] = mapped_column(UtcDateTime)
    created_by: Mapped[str] = mapped_column(Words(255))
    comment: Mapped[str] = mapped_column(Words())


class ActionRow(Base):
    """The audit: what an operator asked for, by whatever way, and what came of it."""

    __tablename__ = "actions"
    __table_args__ = (Index("ix_actions_at", "at"), ONCE)

    id: Mapped[int] = mapped_column(primary_key=True)
    node: Mapped[str] = mapped_column(NODE)
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    actor: Mapped[str] = mapped_column(Words(255))
    """Who, as far as it is known: the token's name, the peer's address, the user at the command line."""
    action: Mapped[str] = mapped_column(Words(64))
    target: Mapped[str] = mapped_column(Words())
    detail: Mapped[dict[str, Any]] = mapped_column(JSON)
    result: Mapped[str] = mapped_column(Words())
    request_id: Mapped[str | None] = mapped_column(Words(64))


class QuarantineRow(Base):
    """A row that a wrong clock dated into the future, moved out of its table whole, so that no query is misled."""

    __tablename__ = "quarantine"

    id: Mapped[int] = mapped_column(primary_key=True)
    moved_at: Mapped[datetime] = mapped_column(UtcDateTime)
    origin: Mapped[str] = mapped_column(Words(64))
    """The table that it was in."""
    row: Mapped[dict[str, Any]] = mapped_column(JSON)
