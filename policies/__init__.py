"""Policies: pure functions from (state, View) to (new state, proposals).

Belongs here: one policy per file or package, with its settings; what several share; guards, outcomes and the capacity
model, which are as pure. Never: a clock, randomness, logging, input or output.
"""
