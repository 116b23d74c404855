"""From a View to decisions: the order of capacity, diagnosis, policies and guards, and under which circumstances.

Belongs here: what is shared by the loop, replay and the benches. Never: I/O towards the engine.
"""
