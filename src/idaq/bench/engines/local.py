"""Cells on this machine, their stages overlapping.

While one cell trains, the next one's data is collected and the one before adapts. A cell that
fails, or that another process holds, stops no other.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack
from pathlib import Path

from idaq.bench.cells import Cell
from idaq.bench.progress import BenchProgress
from idaq.bench.stages import SECONDS_BETWEEN_TRIES, CellWork
from idaq.bench.status import status_of
from idaq.engine.pool import WorkerPool
from idaq.runs.directory import BusyError
from idaq.runs.stages import stage_threads


def run_local(
    results: Path, cells: Sequence[Cell], progress: BenchProgress, *, workers: int = 0
) -> None:
    """Run cells until each is done or has failed."""
    todo = list(cells)
    while todo:
        todo = _wait(results, _run_once(results, todo, progress, workers), progress)


def _wait(results: Path, busy: list[Cell], progress: BenchProgress) -> list[Cell]:
    """Wait for the cells that another process holds; those that it left unfinished."""
    while busy:
        states = {cell: status_of(results, cell).state for cell in busy}
        for cell in [cell for cell in busy if states[cell] == "done"]:
            progress.finished(cell, None)
            busy.remove(cell)
        left = [cell for cell in busy if states[cell] != "running"]
        if left:
            return busy
        time.sleep(SECONDS_BETWEEN_TRIES)
    return busy


def _run_once(
    results: Path, cells: Sequence[Cell], progress: BenchProgress, workers: int
) -> list[Cell]:
    """Every cell once; those that another process holds are given back."""
    busy: list[Cell] = []

    def settle(work: CellWork, error: Exception | None) -> None:
        work.close()
        if isinstance(error, BusyError):
            busy.append(work.cell)
            progress.waiting(work.cell)
        elif not isinstance(error, CancelledError):  # this is where everything is being stopped
            work.record(error)
            progress.finished(work.cell, error)

    def finish(work: CellWork) -> None:
        settle(work, _attempt(work.finish))

    with ExitStack() as stack:
        pool = stack.enter_context(WorkerPool(workers))
        works = [
            CellWork(results, cell, pool, progress.reporter(cell), progress.quiet) for cell in cells
        ]
        for work in works:
            stack.callback(work.close)
        collecting, adapting = stack.enter_context(stage_threads(pool))
        data = collecting.submit(works[0].prepare)
        adapted: list[Future[None]] = []
        for index, work in enumerate(works):
            error = _attempt(data.result)
            if index + 1 < len(works):
                data = collecting.submit(works[index + 1].prepare)
            error = error or _attempt(work.train)
            if error is None:
                adapted.append(adapting.submit(finish, work))
            else:
                settle(work, error)
        for future in adapted:
            future.result()
    return busy


def _attempt(stage: Callable[[], None]) -> Exception | None:
    try:
        stage()
    except Exception as error:
        return error
    return None
