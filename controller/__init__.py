"""The daemon: reads, decides, acts, records.

Belongs here: everything that touches the world. Never: a rule of a policy.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("vllm-governor")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "unknown"
