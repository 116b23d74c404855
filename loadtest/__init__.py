"""Load tests for any OpenAI-compatible server, run by locust: `mixed_workload.py` and `stepped.py`.

Belongs here: what is sent and when, what is timed, what a run came to. Never: an import of the rest of the project
(this folder is copied to the machine that sends the load), judging the governor (bench/).
"""
