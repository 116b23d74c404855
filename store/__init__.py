"""The history: what was decided, why, and what the engine did.

Belongs here: everything SQLAlchemy. Never: the loop, sensors, or a decision of its own.
"""
