"""Alembic's entry point. The daemon hands over its own connection; there is no alembic.ini."""

from alembic import context

from store.models import Base

context.configure(
    connection=context.config.attributes["connection"], target_metadata=Base.metadata, render_as_batch=True
)
with context.begin_transaction():
    context.run_migrations()
