"""What lives in vLLM's API process: the knobs that act there, and who may call.

Here: asking the engine core what is wanted and putting it in force, the ASGI gate, the Unix socket, rate limits, the
audit line. Never here: the wanted state itself; the engine core keeps it, so that several API processes agree. Nothing
here may let an error of ours reach vLLM: every part catches its own and switches itself off.
"""
