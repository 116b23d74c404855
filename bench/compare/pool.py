"""Runs jobs in at most two processes, each with its own vLLM. Belongs here: that. Never: which jobs.

A worker that dies of a job ends the comparison with the job's name; what it raised is raised here.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from types import TracebackType
from typing import Self

from bench.compare.run import Job, run
from bench.compare.score import Score, score

MOST_PROCESSES = 2


class Pool:
    """Use it as a context manager. `told(job, score)` is called in this process after each job."""

    def __init__(self, told: Callable[[Job, Score], None], processes: int = MOST_PROCESSES) -> None:
        self._told = told
        self._pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), initializer=_quiet_end)

    def scores(self, jobs: Iterable[Job]) -> list[Score]:
        """In the order of the jobs."""
        begun: Sequence[tuple[Job, Future[Score]]] = [(job, self._pool.submit(_scored, job)) for job in jobs]
        for job, future in begun:
            future.add_done_callback(lambda done, job=job: None if done.exception() else self._told(job, done.result()))  # type: ignore[misc]
        return [future.result() for _, future in begun]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=error is None, cancel_futures=True)


def _scored(job: Job) -> Score:
    return score(job, run(job))


def _quiet_end() -> None:
    """At an ordinary end the libraries of vLLM complain of leaks; this runs last, so first registered."""
    atexit.register(os._exit, 0)
