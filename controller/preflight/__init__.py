"""Is this machine, this vLLM and this daemon set up as the load needs it: one check per file under checks/.

Belongs here: looking, judging, saying which command cures it. Never: running such a command, changing anything.
"""
