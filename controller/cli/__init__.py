"""The command line: one file per command.

Belongs here: arguments, output, exit codes. Never: what the daemon does.
"""
