"""Carrying decisions and an operator's rollback out on the engine.

Belongs here: intent, call, read back. Never: deciding.
"""
