"""The work of one cell, in three stages: data (CPU), training (device), adaptation (both)."""

import fcntl
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from idaq.behaviour.collect import collect
from idaq.bench.cells import (
    SPLIT,
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
from idaq.envs.family import is_host_family
from idaq.errors import IdaqError
from idaq.runs.adaptation import adapt_run, run_rollouts
from idaq.runs.directory import BusyError, RunDir
from idaq.runs.stages import open_run
from idaq.runs.summary import summarise
from idaq.runs.training import Seeds, train_run
from idaq.storage.atomic import parents_of, remove, write_json
from idaq.storage.dataset import Dataset, open_dataset
from idaq.storage.describe import describe

SECONDS_BETWEEN_TRIES = 0.5  # to get a lock that another process holds
TRAINED_SHARE = 0.5  # of a cell's time has passed when its agents are there

Say = Callable[[str, float], None]  # what is being done, and the share of the cell that is done


class CellWork:
    """One cell at work; its run directory is held from training to the end."""

    def __init__(self, results: Path, cell: Cell, pool: WorkerPool, say: Say, quiet: bool) -> None:
        self.results, self.cell, self.pool, self.say, self.quiet = results, cell, pool, say, quiet
        self._held = ExitStack()
        self._dataset: Dataset | None = None
        self._run: RunDir | None = None

    def prepare(self) -> None:
        """The data, collected if it is not there yet."""
        family, place = get_family(self.cell.family), data_place(self.results, self.cell)
        if is_host_family(family):
            family.check_simulator()
        with _locked(data_lock(self.results, self.cell), self.pool):
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

    def train(self) -> None:
        """The agents that are not there yet; raises `BusyError` where another process trains."""
        if not self.cell.trains:
            return
        assert self._dataset is not None, "prepare comes first"
        dataset, config = self._dataset, self.cell.config()
        run = self._run = run_of(self.results, self.cell, dataset.fingerprint)
        self._held.enter_context(
            open_run(
                run,
                family=get_family(self.cell.family),
                preset=self.cell.preset,
                config=config,
                data={"sha256": dataset.fingerprint},
                split=SPLIT,
                resume=True,
                dataset_path=dataset.path,
            )
        )
        self.say("training", 0.0)
        count = max([self.cell.seeds, *(seed + 1 for seed in run.seeds())])
        every = self.cell.curve_updates(config)
        train_run(run, dataset, Seeds(count=count), self.quiet, every)
        self.say("trained", TRAINED_SHARE)

    def finish(self) -> None:
        """Every result that is not there yet, and the summary."""
        if self._run is None or self._dataset is None:
            return
        run, config = self._run, self.cell.config()
        rollouts = run_rollouts(run, self.pool)
        for number, adaptation in enumerate(self.cell.adaptations):
            if run.adapt(adaptation.name).exists() and not is_current(run, config, adaptation):
                remove(run.adapt(adaptation.name))  # of an older version of the method
            self.pool.check_open()  # a moment to stop at, where there are no workers to wait for
            self.say(f"adapting, {adaptation.name}", self._share(number))
            adapt_run(
                run,
                adaptation.method,
                rollouts,
                config=adaptation.config(config),
                name=adaptation.name,
                data=self._dataset.path if adaptation.method == "expert-context" else None,
                resume=True,
            )
        if self.cell.probes and not probe_file(run).is_file():
            self.say("probing a training task", 1.0)
            write_probe(run, self._dataset, rollouts)
        if self.cell.curve_points and not curve_file(run).is_file():
            self.say("adapting, along the learning curve", TRAINED_SHARE)
            write_curve(run, self.cell, self._dataset, rollouts)
        summarise(run)

    def _share(self, num_adapted: int) -> float:
        return TRAINED_SHARE + (1.0 - TRAINED_SHARE) * num_adapted / len(self.cell.adaptations)

    def close(self) -> None:
        """Let go of the run directory."""
        self._held.close()
        self._dataset = None

    def record(self, error: Exception | None) -> None:
        """Write down why the cell failed, or that it did not."""
        place = error_place(self.results, self.cell)
        if error is None:
            remove(place)
            return
        is_known = isinstance(error, IdaqError)
        text = str(error) if is_known else f"{type(error).__name__}: {error}"
        trace = None if is_known else "".join(traceback.format_exception(error))
        write_json(place, {"cell": self.cell.label, "error": text, "traceback": trace})


def run_cell(results: Path, cell: Cell, *, workers: int = 0, quiet: bool = True) -> str | None:
    """All of one cell, by itself; the error that ended it, if one did.

    Waits where another process is at work on the cell.
    """
    with WorkerPool(workers) as pool:
        while status_of(results, cell).state != "done":
            work = CellWork(results, cell, pool, lambda stage, share: None, quiet)
            try:
                work.prepare()
                work.train()
                work.finish()
                work.record(None)
            except BusyError:
                time.sleep(SECONDS_BETWEEN_TRIES)
            except Exception as error:
                work.record(error)
                return str(error)
            finally:
                work.close()
    return None


@contextmanager
def _locked(file: Path, pool: WorkerPool) -> Iterator[None]:
    """Hold a lock, waiting for whoever has it, as long as the pool is open."""
    with parents_of(file), file.open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                pool.check_open()
                time.sleep(SECONDS_BETWEEN_TRIES)
        yield
