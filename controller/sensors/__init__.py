"""Sensors: each reads one source and answers a frozen reading, with unknown as None.

Belongs here: reaching a source and understanding its answer. Never: rates, windows or decisions.
"""
