"""`make run`: a real vLLM under load, steered by the governor from a static batch to an objective that it keeps."""

from bench.demo.command import main

__all__ = ["main"]
