"""The part of vllm-governor that lives inside vLLM.

Here: the version. Never here: an import of vLLM or of anything that costs time, since every vLLM process loads this.
"""

__version__ = "0.1.0"
