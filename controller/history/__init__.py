"""What goes into the history and comes out again: decisions, recordings, outcomes, replay.

Belongs here: between the loop and the store. Never: SQL, deciding.
"""
