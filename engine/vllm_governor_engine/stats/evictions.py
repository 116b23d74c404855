"""Counts cached blocks that are emptied, and tells those that somebody needed from those that were dropped.

Here: a counter in the place of each pool's metrics collector. Never here: the eviction of anything.

vLLM tells a pool's `metrics_collector` of every block before it empties it. A block is emptied because it is given to
a request (an eviction) or because somebody called the pool's `evict_blocks` (a purge or reclaim of ours, a connector):
what happens inside such a call is counted apart, so that our own purges do not look like pressure.
"""

from __future__ import annotations

from typing import Any

from vllm_governor_engine.cache.pools import pools_of


class _Watch:
    """What a pool gets as its metrics collector. It sits in vLLM's code, so it must not raise.

    A collector that was there before is told everything as if it were there still.
    """

    def __init__(self, before: Any, hash_attribute: str) -> None:
        self.emptied = 0
        self.broken: Exception | None = None
        self._before = before
        # vLLM calls these for every block: something of Python's own that takes one argument and does nothing is
        # cheapest where nobody else wants to know.
        self.on_block_allocated = id if before is None else before.on_block_allocated
        self.on_block_accessed = id if before is None else before.on_block_accessed
        self.on_block_evicted = self._counter(hash_attribute == "_block_hash")
        if before is not None:
            self.on_block_evicted = _both(self.on_block_evicted, before.on_block_evicted)

    def _counter(self, direct: bool) -> Any:
        def by_property(block: Any) -> None:
            try:
                if block.block_hash is not None:
                    self.emptied += 1
            except Exception as error:
                self.broken = error

        def by_attribute(block: Any) -> None:  # a third cheaper than the property
            try:
                if block._block_hash is not None:
                    self.emptied += 1
            except Exception as error:
                self.broken = error

        return by_attribute if direct else by_property

    def reset(self) -> None:
        """The whole cache was reset, which is no eviction."""
        if self._before is not None:
            self._before.reset()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._before, name)


def _both(ours: Any, theirs: Any) -> Any:
    def on_block_evicted(block: Any) -> None:
        ours(block)
        theirs(block)

    return on_block_evicted


class _PoolWatch:
    """One pool's two hooks, and how they are taken away again."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._before = pool.metrics_collector  # absent: AttributeError, and evictions are not known
        self.watch = _Watch(self._before, "_block_hash" if hasattr(pool.blocks[0], "_block_hash") else "block_hash")
        self.dropped = 0
        original = pool.evict_blocks

        def evict_blocks(*args: Any, **kwargs: Any) -> Any:
            emptied_before = self.watch.emptied
            try:
                return original(*args, **kwargs)
            finally:
                self.dropped += self.watch.emptied - emptied_before

        self._wrapper = evict_blocks
        pool.metrics_collector = self.watch
        pool.evict_blocks = evict_blocks

    def stop(self) -> None:
        pool = self._pool
        if pool.metrics_collector is self.watch:
            pool.metrics_collector = self._before
        if vars(pool).get("evict_blocks") is self._wrapper:
            del pool.evict_blocks


class Evictions:
    """Counts since the collection began, over all pools."""

    def __init__(self, scheduler: Any) -> None:
        self._watched: list[_PoolWatch] = []
        try:
            for pool in pools_of(scheduler):
                self._watched.append(_PoolWatch(pool))
        except Exception:
            self.stop()
            raise

    def read(self) -> dict[str, Any]:
        """See Collector."""
        for pool in self._watched:
            if pool.watch.broken is not None:
                raise pool.watch.broken
        dropped = sum(pool.dropped for pool in self._watched)
        return {"evictions": sum(pool.watch.emptied for pool in self._watched) - dropped, "dropped": dropped}

    def stop(self) -> None:
        """See Collector."""
        for pool in self._watched:
            pool.stop()
