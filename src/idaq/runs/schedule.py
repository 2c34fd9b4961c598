"""The only scheduler: pieces of work whose stages overlap.

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
        """Take note, once, of how the work ended; the error is of the stage that failed.

        What this raises ends all other work too; after `finish`, only once all have trained.
        """
        ...


def run_overlapping(works: Sequence[Work], pool: WorkerPool) -> None:
    """Do all work, in order; a failure does not stop the rest."""
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
    """Run the stages until one fails; returns its error."""
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
            pool.close()  # first: the threads may be waiting for it
            for threads in (finishing, preparing):  # drop what has not begun
                threads.shutdown(wait=False, cancel_futures=True)
