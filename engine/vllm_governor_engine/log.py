"""The plugin's logger.

Here: one function. Never here: what is worth a line; the callers know that.
"""

from __future__ import annotations

import logging

NAME = "vllm_governor_engine"


def get_logger() -> logging.Logger:
    """The logger `vllm_governor_engine`, made audible.

    vLLM configures only loggers below `vllm`, so a plugin's INFO line would go nowhere. When nobody has configured
    ours, it borrows the handlers and the level of vLLM's.
    """
    logger = logging.getLogger(NAME)
    if not logger.hasHandlers():
        vllm_logger = logging.getLogger("vllm")
        for handler in vllm_logger.handlers:
            logger.addHandler(handler)
        if logger.level == logging.NOTSET and vllm_logger.level != logging.NOTSET:
            logger.setLevel(vllm_logger.level)
    return logger
