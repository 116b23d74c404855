"""batch_resize: how many requests may run at once (vLLM's max_num_seqs).

Belongs here: three algorithms (`seed`, `rules`, `model`) behind one policy. Never: bounds of the engine or cooldowns
across policies (the arbiter holds those).
"""

from policies.batch_resize.policy import BatchResize
from policies.batch_resize.settings import BatchResizeSettings
from policies.batch_resize.state import BatchResizeState

__all__ = ["BatchResize", "BatchResizeSettings", "BatchResizeState"]
