"""Which objectives are in force now: configured, scheduled or proposed, and maintenance windows.

Belongs here: choosing and keeping them. Never: judging whether they are met.
"""
