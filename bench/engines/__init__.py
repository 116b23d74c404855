"""`make test-engines`: the plugin on every vLLM that it is tested on, and the table of what each lets it do."""

from __future__ import annotations

from bench.engines.command import main

__all__ = ["main"]
