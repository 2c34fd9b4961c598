"""Worker processes: units in, what they give out.

Workers are spawned, own their simulators, and compute on one thread of the CPU. When a worker dies,
the pool is replaced and its unfinished units run again, with the same seeds.
"""

import hashlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from multiprocessing.resource_tracker import ensure_running
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import numpy as np

from idaq.engine.stopping import EXIT_CODES, check_stopped
from idaq.engine.units import Unit
from idaq.errors import IdaqError
from idaq.storage.atomic import atomic_file
from idaq.storage.scratch import Scratch, remove_abandoned, remove_when_abandoned
from idaq.types import PyTree

Done = TypeVar("Done")

UNITS_PER_WORKER = 2  # in flight, so that no worker waits and little is held in memory
MAX_DEATHS_IN_A_ROW = 5  # of workers, with no unit finished in between
MAX_WORKERS = 1_000
MANAGER_SECONDS = 10  # for a pool's thread to see that its workers were killed
LAST_SECONDS = 2.0  # for a parent to release its locks after its workers have seen it end


def _start_worker(directory: str) -> None:
    """Runs first in every worker: compute on one CPU thread, and end when the parent has ended.

    `directory` is the pool's: if the parent was killed, the worker removes it. Spawned processes do
    not inherit its lock, which is therefore released when the parent ends.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel, directory), daemon=True).start()
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"
    import jax

    jax.config.update("jax_platforms", "cpu")  # type: ignore[no-untyped-call]


def _end_with(sentinel: int, directory: str) -> None:
    wait([sentinel])
    try:
        remove_when_abandoned(Path(directory), LAST_SECONDS)
    finally:
        os._exit(1)


def _run(unit: Unit[Done]) -> Done:
    return unit.run()


def default_workers() -> int:
    """One per core that this process may use."""
    return len(os.sched_getaffinity(0))


class WorkerPool:
    """Spawned workers for any number of families; threads may share it.

    `with WorkerPool() as pool: for episodes in pool.results(units): ...`
    """

    def __init__(self, num_workers: int = 0) -> None:
        if not 0 <= num_workers <= MAX_WORKERS:
            raise IdaqError(
                f"`workers` is {num_workers}.", f"Give 1 to {MAX_WORKERS:,}, or 0: one per core."
            )
        self.num_workers = num_workers or default_workers()
        self._lock = threading.Lock()
        self._deaths_in_a_row = 0
        self._closed = False
        self._executor: ProcessPoolExecutor | None = None
        self._starter = ThreadPoolExecutor(1, initializer=_block_interrupts)
        remove_abandoned()  # of pools that were killed before they had workers
        self._scratch = Scratch()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers; what they were doing is dropped."""
        with self._lock:
            self._closed = True
            self._starter.shutdown()
            if self._executor is not None:
                _kill(self._executor)
                self._executor = None
        self._scratch.close()

    def check_open(self) -> None:
        """Raise `CancelledError` if the pool is closed, so that callers stop waiting.

        It is also a safe point to be stopped at.
        """
        check_stopped()
        if self._closed:
            raise CancelledError("the worker pool is closed")

    def share_agent(self, agent: PyTree) -> str:
        """Put an agent where the workers can read it; the file is removed with the pool."""
        import jax

        content = pickle.dumps(jax.tree.map(np.asarray, agent))
        file = self._scratch.path / hashlib.sha256(content).hexdigest()
        if not file.exists():
            with atomic_file(file) as temporary:
                temporary.write_bytes(content)
        return str(file)

    def forget_agent(self, file: str) -> None:
        """Remove a shared agent that no unit needs any more."""
        Path(file).unlink(missing_ok=True)

    def results(self, units: Iterable[Unit[Done]]) -> Iterator[Done]:
        """The result of every unit, in order; a few units are in flight at a time."""
        waiting: deque[tuple[Unit[Done], ProcessPoolExecutor, Future[Done]]] = deque()
        todo = iter(units)
        exhausted = False
        while True:
            while not exhausted and len(waiting) < UNITS_PER_WORKER * self.num_workers:
                unit = next(todo, None)
                exhausted = unit is None
                if unit is not None:
                    waiting.append((unit, *self._submit(unit)))
            if not waiting:
                return
            unit, executor, future = waiting.popleft()
            try:
                result = future.result()
            except BrokenProcessPool:
                self._replace(executor, unit)
                waiting.appendleft((unit, *self._submit(unit)))
                continue
            self._deaths_in_a_row = 0
            yield result

    def _submit(self, unit: Unit[Done]) -> tuple[ProcessPoolExecutor, Future[Done]]:
        while True:
            with self._lock:
                self.check_open()
                if self._executor is None:
                    self._executor = ProcessPoolExecutor(
                        self.num_workers,
                        mp_context=multiprocessing.get_context("spawn"),
                        initializer=_start_worker,
                        initargs=(str(self._scratch.path),),
                    )
                executor = self._executor
            try:
                return executor, self._starter.submit(executor.submit, _run, unit).result()
            except BrokenProcessPool:
                self._replace(executor, unit)
            except RuntimeError:  # one of the two was shut down at this very moment
                self.check_open()
                if self._executor is executor:
                    raise

    def _replace(self, broken: ProcessPoolExecutor, unit: Unit[object]) -> None:
        """Drop a pool in which a worker died; only the first caller to notice counts the death."""
        with self._lock:
            if self._executor is not broken:
                return
            _kill(broken)
            self._executor = None
            self._deaths_in_a_row += 1
            if self._deaths_in_a_row >= MAX_DEATHS_IN_A_ROW:
                raise IdaqError(
                    f"Worker processes died {self._deaths_in_a_row} times in a row, the last time "
                    f"at {type(unit).__name__}.",
                    "Is there enough memory? Use fewer `workers`, or see the system log. "
                    "In a script of your own, call idaq under `if __name__ == '__main__':`.",
                )


def _block_interrupts() -> None:
    """Runs first in the thread that starts workers, so that neither it nor they receive Ctrl-C.

    Nor SIGTERM, which batch systems send to every process of a job.

    The parent receives it, ends the workers and tells the user how to go on. It must not be
    interrupted while it is starting a worker, or that worker prints a traceback.
    """
    ensure_running()  # if it started later, multiprocessing's tracker would unblock the signal
    signal.pthread_sigmask(signal.SIG_BLOCK, EXIT_CODES)


def _kill(executor: ProcessPoolExecutor) -> None:
    workers = getattr(executor, "_processes", None)  # `shutdown` forgets both
    manager = getattr(executor, "_executor_manager_thread", None)
    executor.shutdown(wait=False, cancel_futures=True)  # waits for a worker that is being started
    processes = list(workers.values()) if workers is not None else []
    for process in processes:
        process.kill()
    if manager is not None:  # Python's own clean-up at exit fails while this thread is ending
        manager.join(MANAGER_SECONDS)
    for process in processes:
        process.join()
