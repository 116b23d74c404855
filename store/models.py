"""The tables. A change here needs a migration beside it (store/migrations/versions).

Belongs here: columns and their meaning. Never: queries.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, Dialect, ForeignKey, Index, String, Text, TypeDecorator
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class UtcDateTime(TypeDecorator[datetime]):
    """A time with its zone. SQLite keeps no zone, so UTC goes in and UTC comes out."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=value.tzinfo or UTC)


class Base(DeclarativeBase):
    """All tables of the history."""


class Run(Base):
    """One boot of one engine, as long as one daemon watched it."""

    __tablename__ = "runs"

    id: Mapped[int] = mapped_column(primary_key=True)
    started_at: Mapped[datetime] = mapped_column(UtcDateTime)
    node: Mapped[str] = mapped_column(String(255))
    engine_url: Mapped[str] = mapped_column(Text)
    boot_id: Mapped[str] = mapped_column(Text)
    vllm_version: Mapped[str] = mapped_column(String(64))
    plugin_version: Mapped[str] = mapped_column(String(64))
    envelope: Mapped[dict[str, Any]] = mapped_column(JSON)
    """The engine's start-up value of each knob."""


class DecisionRow(Base):
    """One decision; the columns are those of `domain.decision.Decision`."""

    __tablename__ = "decisions"
    __table_args__ = (Index("ix_decisions_at", "at"), Index("ix_decisions_knob_at", "knob", "at"))

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int | None] = mapped_column(ForeignKey("runs.id"))
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    mode: Mapped[str] = mapped_column(String(16))
    policy: Mapped[str] = mapped_column(String(64))
    knob: Mapped[str] = mapped_column(String(64))
    old: Mapped[float | None]
    wanted: Mapped[float | None]
    requested: Mapped[float | None]
    observed: Mapped[float | None]
    status: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(String(64))
    sentence: Mapped[str] = mapped_column(Text)
    evidence: Mapped[dict[str, Any]] = mapped_column(JSON)
    guards: Mapped[list[str]] = mapped_column(JSON)
    error: Mapped[str | None] = mapped_column(Text)
