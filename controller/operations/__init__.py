"""What an operator can do and see, whatever the face: REST, and through it the command line and the dashboard.

One file per subject, each a small class over the loop and the history. Belongs here: checking what is asked, carrying
it out through the loop, saying what came of it, the audit. Never: HTTP, a command's arguments, a rule, SQL.
"""
