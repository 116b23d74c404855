"""Policies: pure functions from (state, View) to (new state, proposals).

Belongs here: one policy per file, with its settings. Never: a clock, randomness, logging, input or output.
"""
