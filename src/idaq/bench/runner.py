"""`idaq bench run`: the unfinished cells of an experiment are run by one of the engines."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from idaq.bench.cells import Cell
from idaq.bench.choices import CPUS_PER_CELL, DEFAULT_ENGINE, GPUS_PER_CELL, Engine
from idaq.bench.engines.local import run_local
from idaq.bench.progress import BenchProgress, to_stderr
from idaq.bench.status import Status, status_of
from idaq.errors import IdaqError


def run_cells(
    results: Path,
    cells: Sequence[Cell],
    *,
    engine: Engine = DEFAULT_ENGINE,
    workers: int = 0,
    address: str | None = None,
    cpus_per_cell: float = CPUS_PER_CELL,
    gpus_per_cell: float = GPUS_PER_CELL,
    quiet: bool = False,
    say: Callable[[str], None] = to_stderr,
) -> dict[Cell, Status]:
    """Run the cells that are not done; returns where every cell stands afterwards."""
    before = {cell: status_of(results, cell) for cell in cells}
    errors: dict[Cell, Exception] = {}
    todo = [cell for cell in cells if before[cell].state not in ("done", "unavailable")]
    if todo:
        done = sum(status.state == "done" for status in before.values())
        progress = BenchProgress(todo, done_before=done, quiet=quiet, say=say)
        if engine == "ray":
            from idaq.bench.engines.ray import run_ray

            run_ray(
                results,
                todo,
                progress,
                address=address,
                cpus_per_cell=cpus_per_cell,
                gpus_per_cell=gpus_per_cell,
                workers=workers,
            )
        else:
            run_local(results, todo, progress, workers=workers)
        errors = progress.errors
    after = {cell: status_of(results, cell) for cell in cells}
    for cell, error in errors.items():  # some recorded nothing: a node was lost for good
        if after[cell].state != "failed":
            after[cell] = replace(after[cell], state="failed", note=str(error))
    return after


def check_outcome(statuses: dict[Cell, Status]) -> None:
    """Raise an error that names the cells that failed."""
    failed = {cell.label: s.note for cell, s in statuses.items() if s.state == "failed"}
    if failed:
        problems = " ".join(f"{label}: {note}" for label, note in failed.items())
        raise IdaqError(
            f"{len(failed)} of {len(statuses)} cells failed. {problems}",
            "Then go on with the same command.",
        )
