"""The daemon's HTTP side: one table of routes, one file per resource.

Belongs here: turning a request into an answer. Never: deciding, reading a source.
"""
