"""Pieces of work whose stages overlap, the only scheduler.

While one trains, the next one's data is prepared and the one before is finished. A single piece of
work needs no threads.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol

from idaq.engine.pool import WorkerPool


class Work(Protocol):
    """Something to do in three stages: data (CPU), training (device), adaptation (both)."""

    def prepare(self) -> None: ...

    def train(self) -> None: ...

    def finish(self) -> None: ...

    def settle(self, error: Exception | None) -> None:
        """Take note of how it ended, once; the error is of the first stage that failed.

        What is raised here ends all other work, too.
        """
        ...


def run_overlapping(works: Sequence[Work], pool: WorkerPool) -> None:
    """Do all work, in order; what fails stops nothing else."""
    if len(works) == 1:  # no threads: an interrupt ends it at once
        (work,) = works
        work.settle(_attempt(work.prepare, work.train, work.finish))
        return
    with _stage_threads(pool) as (preparing, finishing):
        prepared = [preparing.submit(work.prepare) for work in works[:1]]
        finished: list[Future[None]] = []
        for index, work in enumerate(works):
            error = _attempt(prepared[index].result)
            if error is not None:
                work.settle(error)
            prepared += [preparing.submit(each.prepare) for each in works[index + 1 : index + 2]]
            if error is not None:
                continue
            error = _attempt(work.train)
            if error is not None:
                work.settle(error)
            else:
                finished.append(finishing.submit(_finish, work))
        for future in finished:
            future.result()


def _finish(work: Work) -> None:
    work.settle(_attempt(work.finish))


def _attempt(*stages: Callable[[], None]) -> Exception | None:
    """The error of the first stage that fails; those after it are left out."""
    try:
        for stage in stages:
            stage()
    except Exception as error:
        return error
    return None


@contextmanager
def _stage_threads(pool: WorkerPool) -> Iterator[tuple[ThreadPoolExecutor, ThreadPoolExecutor]]:
    """A thread that prepares and one that finishes, beside the one that trains."""
    with ThreadPoolExecutor(1, "collect") as preparing, ThreadPoolExecutor(1, "adapt") as finishing:
        try:
            yield preparing, finishing
        finally:
            pool.close()  # first: what the threads are waiting for
            for threads in (finishing, preparing):  # what has not begun when this is interrupted
                threads.shutdown(wait=False, cancel_futures=True)
