"""The work of one cell, in three stages: data (CPU), training (device), adaptation (both)."""

import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

from idaq.adapt.methods import METHODS
from idaq.behaviour.collect import collect
from idaq.bench.cells import (
    Cell,
    data_lock,
    data_place,
    description_place,
    error_place,
    run_of,
)
from idaq.bench.curve import write_curve
from idaq.bench.probe import write_probe
from idaq.bench.status import curve_file, is_current, probe_file, status_of
from idaq.engine.pool import WorkerPool
from idaq.envs import get_family
from idaq.envs.family import check_environment
from idaq.errors import IdaqError
from idaq.runs.adapt_stage import adapt, rollouts_of
from idaq.runs.run import Run
from idaq.runs.schedule import run_overlapping
from idaq.runs.summary import summarise
from idaq.runs.train_stage import Seeds, train
from idaq.storage.atomic import remove, write_json
from idaq.storage.dataset import Dataset, open_dataset
from idaq.storage.describe import describe
from idaq.storage.lock import BusyError, locked

SECONDS_BETWEEN_TRIES = 0.5  # to get a lock that another process holds
TRAINED_SHARE = 0.5  # of a cell counts as done when its agents are trained

Say = Callable[[str, float], None]  # what is being done, and the share of the cell that is done
Settled = Callable[[Cell, Exception | None], None]


class CellWork:
    """The work of one cell, which holds its run directory from training to the end."""

    def __init__(
        self,
        results: Path,
        cell: Cell,
        pool: WorkerPool,
        settled: Settled,
        say: Say = lambda stage, share: None,
        quiet: bool = True,
    ) -> None:
        self.results, self.cell, self.pool = results, cell, pool
        self.settled, self.say, self.quiet = settled, say, quiet
        self._held = ExitStack()
        self._dataset: Dataset | None = None
        self._run: Run | None = None

    def prepare(self) -> None:
        """Open the data, and collect it first if it is missing."""
        family, place = get_family(self.cell.family), data_place(self.results, self.cell)
        check_environment(family)
        with self._data_lock():
            if not place.is_dir():
                self.say("collecting", 0.0)
                collect(
                    family,
                    place,
                    trajectories=self.cell.trajectories,
                    quality=self.cell.quality,
                    pool=self.pool,
                    quiet=self.quiet,
                )
            self._dataset = open_dataset(place, family.spec)
            description = description_place(self.results, self.cell)
            if not description.is_file():
                content = {"sha256": self._dataset.fingerprint, **describe(self._dataset)}
                write_json(description, content)

    def _data_lock(self) -> ExitStack:
        """Lock the data; while the pool is open, wait if another process holds the lock."""
        while True:
            lock = ExitStack()
            try:
                lock.enter_context(locked(data_lock(self.results, self.cell)))
                return lock
            except BusyError:
                self.pool.check_open()
                time.sleep(SECONDS_BETWEEN_TRIES)

    def train(self) -> None:
        """Train the missing agents; raises `BusyError` if another process holds the run."""
        if not self.cell.trains:
            return
        assert self._dataset is not None, "prepare comes first"
        dataset = self._dataset
        recipe = self.cell.recipe(dataset.fingerprint)
        place = run_of(self.results, self.cell, recipe)
        claim = Run.claim(place, recipe, resume=True, dataset=dataset)
        run = self._run = self._held.enter_context(claim)
        self.say("training", 0.0)
        count = max([self.cell.seeds, *(seed + 1 for seed in run.seeds())])
        every = self.cell.curve_updates(run.config)
        train(run, dataset, Seeds(count=count), self.quiet, every)
        self.say("trained", TRAINED_SHARE)

    def finish(self) -> None:
        """Compute the missing results and write the summary."""
        if self._run is None or self._dataset is None:
            return
        run, place = self._run, self._run.directory
        rollouts = rollouts_of(run, self.pool)
        for number, adaptation in enumerate(self.cell.adaptations):
            if place.adapt(adaptation.name).exists() and not is_current(place, run, adaptation):
                remove(place.adapt(adaptation.name))  # of an older version of the method
            self.pool.check_open()  # notices a stop even if there are no workers to wait for
            self.say(f"adapting, {adaptation.name}", self._share(number))
            adapt(
                run,
                adaptation.method,
                rollouts,
                config=adaptation.config(run.config),
                name=adaptation.name,
                data=self._dataset.path if METHODS[adaptation.method].is_given_logs else None,
                resume=True,
            )
        if self.cell.probes and not probe_file(place).is_file():
            self.say("probing a training task", 1.0)
            write_probe(run, self._dataset, rollouts)
        if self.cell.curve_points and not curve_file(place).is_file():
            self.say("adapting, along the learning curve", TRAINED_SHARE)
            write_curve(run, self.cell, self._dataset, rollouts)
        summarise(run)

    def _share(self, num_adapted: int) -> float:
        return TRAINED_SHARE + (1.0 - TRAINED_SHARE) * num_adapted / len(self.cell.adaptations)

    def settle(self, error: Exception | None) -> None:
        """Release everything, and report how it ended."""
        self.close()
        self.settled(self.cell, error)

    def close(self) -> None:
        """Release the run directory and the data."""
        self._held.close()
        self._dataset = self._run = None


def record(results: Path, cell: Cell, error: Exception | None) -> None:
    """Write down why a cell failed, or that it did not."""
    place = error_place(results, cell)
    if error is None:
        remove(place)
        return
    is_known = isinstance(error, IdaqError)
    text = str(error) if is_known else f"{type(error).__name__}: {error}"
    trace = None if is_known else "".join(traceback.format_exception(error))
    write_json(place, {"cell": cell.label, "error": text, "traceback": trace})


def run_cell(results: Path, cell: Cell, *, workers: int = 0, quiet: bool = True) -> str | None:
    """Do all the work of one cell; returns the error that ended it, if one did.

    Waits while another process is at work on the cell.
    """
    errors: list[Exception | None] = []
    with WorkerPool(workers) as pool:
        while status_of(results, cell).state != "done":
            work = CellWork(results, cell, pool, lambda _, error: errors.append(error), quiet=quiet)
            with closing(work):
                run_overlapping([work], pool)
            error = errors.pop()
            if isinstance(error, BusyError):
                time.sleep(SECONDS_BETWEEN_TRIES)
                continue
            record(results, cell, error)
            if error is not None:
                return str(error)
    return None
