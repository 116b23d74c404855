"""The kinds of columns that every database is to treat alike.

Belongs here: what goes into a column and what comes out. Never: which columns there are (store/models.py).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, Dialect, String, Text, TypeDecorator
from sqlalchemy.types import TypeEngine

NUL, IN_ITS_PLACE = "\x00", "\N{REPLACEMENT CHARACTER}"


class UtcDateTime(TypeDecorator[datetime]):
    """A time with its zone. SQLite keeps no zone, so UTC goes in and UTC comes out."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=value.tzinfo or UTC)


class Words(TypeDecorator[str]):
    """Text for people, of `most` characters at most; None: as long as it is.

    PostgreSQL refuses a text that is longer than its column and one with a NUL, and no database takes half of a
    surrogate pair: an answer of an engine may have all three, and a decision must not be lost to them. What is too long
    is cut; so this is not for a uid, which could then be another's.
    """

    impl = Text
    cache_ok = True

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self.most = most

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return Text() if self.most is None else String(self.most)

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        if NUL in value:
            value = value.replace(NUL, IN_ITS_PLACE)
        if not value.isascii():
            value = value.encode(errors="replace").decode()
        return value[: self.most]
