"""Cells on this machine, their stages overlapping.

While one cell trains, the next one's data is collected and the one before adapts. A cell that
fails, or that another process holds, does not stop the others.
"""

import time
from collections.abc import Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack
from pathlib import Path

from idaq.bench.cells import Cell
from idaq.bench.progress import BenchProgress
from idaq.bench.stages import SECONDS_BETWEEN_TRIES, CellWork, record
from idaq.bench.status import status_of
from idaq.engine.pool import WorkerPool
from idaq.engine.stopping import check_stopped
from idaq.runs.schedule import run_overlapping
from idaq.storage.lock import BusyError


def run_local(
    results: Path, cells: Sequence[Cell], progress: BenchProgress, *, workers: int = 0
) -> None:
    """Run cells until each is done or has failed."""
    todo = list(cells)
    while todo:
        todo = _wait(results, _run_once(results, todo, progress, workers), progress)


def _wait(results: Path, busy: list[Cell], progress: BenchProgress) -> list[Cell]:
    """Wait until another process drops one of its cells unfinished; returns all that are not done.

    If none is dropped, it waits until all are done.
    """
    while busy:
        states = {cell: status_of(results, cell).state for cell in busy}
        for cell in [cell for cell in busy if states[cell] == "done"]:
            progress.finished(cell, None)
            busy.remove(cell)
        left = [cell for cell in busy if states[cell] != "running"]
        if left:
            return busy
        check_stopped()
        time.sleep(SECONDS_BETWEEN_TRIES)
    return busy


def _run_once(
    results: Path, cells: Sequence[Cell], progress: BenchProgress, workers: int
) -> list[Cell]:
    """Run every cell once; returns those that another process holds."""
    busy: list[Cell] = []

    def settled(cell: Cell, error: Exception | None) -> None:
        if isinstance(error, BusyError):
            busy.append(cell)
            progress.waiting(cell)
        elif not isinstance(error, CancelledError):  # which means that everything is being stopped
            record(results, cell, error)
            progress.finished(cell, error)

    with WorkerPool(workers) as pool, ExitStack() as stack:
        works = [
            CellWork(results, cell, pool, settled, progress.reporter(cell), progress.quiet)
            for cell in cells
        ]
        for work in works:
            stack.callback(work.close)
        run_overlapping(works, pool)
    return busy
