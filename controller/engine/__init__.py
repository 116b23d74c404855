"""The daemon's end of the admin RPC: connections, calls, the wire format, the lease.

Belongs here: talking to the engine. Never: deciding what to say.
"""
