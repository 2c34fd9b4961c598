"""collect -> train -> adapt -> summary, on a run directory; the command line's Python twin.

Every stage skips what is done, so that an interrupted run goes on where it stopped.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from idaq.adapt.methods import check_method_of, judge_needed
from idaq.algos.entries import ALGORITHMS, make_algorithm
from idaq.algos.resolve import judge_kind, resolve, without_judge
from idaq.behaviour.collect import (
    DEFAULT_TRAJECTORIES,
    check_collection,
    collect,
    generator,
    library_versions,
)
from idaq.behaviour.quality import Quality, find_loggers
from idaq.config import to_dict
from idaq.engine.device import find_device
from idaq.engine.pool import WorkerPool
from idaq.envs import get_family
from idaq.envs.family import TaskFamily, is_host_family
from idaq.errors import IdaqError
from idaq.runs.adaptation import adapt_run, check_models, run_rollouts
from idaq.runs.directory import RunDir, git_state
from idaq.runs.summary import summarise
from idaq.runs.training import (
    Seeds,
    Split,
    check_dataset_family,
    check_trainable,
    open_run_data,
    train_run,
)
from idaq.settings import AdaptConfig, RunConfig
from idaq.storage.dataset import Dataset, open_dataset, read_metadata

T = TypeVar("T")


def run_identity(
    family: TaskFamily, preset: str, config: RunConfig, data: dict[str, Any], split: Split
) -> dict[str, Any]:
    """What a run is: everything that decides its numbers, besides its seeds."""
    algorithm = make_algorithm(config.algorithm, family.spec)
    return {
        "family": family.name,
        "family_version": family.version,
        "algo": algorithm.name,
        "algo_version": algorithm.version,
        "preset": preset,
        "split": split,
        "data": data,
        "config": to_dict(config),
    }


@contextmanager
def open_run(
    run: RunDir,
    *,
    family: TaskFamily,
    preset: str,
    config: RunConfig,
    data: dict[str, Any],
    split: Split,
    resume: bool,
    dataset_path: Path | None = None,
) -> Iterator[None]:
    """Hold the run directory for a new run, or for the same one to go on with."""
    check_trainable(config, family)
    identity = run_identity(family, preset, config, data, split)
    device = find_device()
    provenance = {
        "versions": library_versions(),
        "git": git_state(),
        "device": f"{device.platform}: {device.device_kind}",
        "dataset": str(dataset_path.resolve()) if dataset_path else None,
    }
    with run.claimed(identity, provenance, resume):
        yield


def collect_into(
    run: RunDir,
    family: TaskFamily,
    trajectories: int,
    seed: int,
    pool: WorkerPool,
    quiet: bool = False,
    quality: Quality = "expert",
    policies: Path | None = None,
) -> Dataset:
    """The run's own dataset, collected if it is not there yet."""
    if not run.data.exists():
        started = time.monotonic()
        collect(
            family,
            run.data,
            trajectories=trajectories,
            seed=seed,
            quality=quality,
            policies=policies,
            pool=pool,
            quiet=quiet,
        )
        run.record_time("collect_s", time.monotonic() - started)
    return open_run_data(run, run.data, family)


def dataset_family(path: Path) -> TaskFamily:
    """The task family that a dataset is of."""
    return get_family(read_metadata(path)["family"])


def train_all(
    run: RunDir,
    data: Path,
    *,
    preset: str = "default",
    config: RunConfig | None = None,
    seeds: Seeds | None = None,
    split: Split = "test",
    resume: bool = False,
    quiet: bool = False,
) -> None:
    """Train agents on a dataset: what `idaq train` does."""
    family = dataset_family(data)
    dataset = open_dataset(data, family.spec)
    check_dataset_family(dataset, family)
    with open_run(
        run,
        family=family,
        preset=preset,
        config=config or resolve(preset, family),
        data={"sha256": dataset.fingerprint},
        split=split,
        resume=resume,
        dataset_path=data,
    ):
        train_run(run, dataset, seeds or Seeds(), quiet)


def adapt_all(
    run: RunDir,
    method: str,
    *,
    config: AdaptConfig | None = None,
    name: str | None = None,
    data: Path | None = None,
    resume: bool = False,
    workers: int = 0,
) -> dict[str, Any]:
    """Adapt a run's agents with one method: what `idaq adapt` does. Returns the summary."""
    run.manifest()  # before a lock is left in a directory that is no run
    find_device()
    with run.locked(), WorkerPool(workers) as pool:
        rollouts = run_rollouts(run, pool)
        adapt_run(run, method, rollouts, config=config, name=name, data=data, resume=resume)
        return summarise(run)


@dataclass(frozen=True, kw_only=True)
class Job:
    """The main job on one family: data, agents, adaptation with some methods."""

    run: RunDir
    family: TaskFamily
    preset: str = "default"
    config: RunConfig
    methods: Sequence[str] = ()  # none: the algorithm's own comparison
    seeds: Seeds = field(default_factory=Seeds)
    trajectories: int = DEFAULT_TRAJECTORIES
    data_seed: int = 0
    quality: Quality = "expert"
    policies: Path | None = None  # a directory of behaviour policies, other than the family's own
    split: Split = "test"
    resume: bool = False

    def checked(self) -> "Job":
        """The job with no more models than its methods need, or an error."""
        if is_host_family(self.family):
            self.family.check_simulator()
        kind = self.config.algorithm.kind
        if not self.methods:
            return dataclasses.replace(
                self, methods=ALGORITHMS.get_entry(kind).default_methods
            ).checked()
        for method in self.methods:
            check_method_of(kind, method)
            check_models(method, self.config)
        check_collection(self.trajectories, self.data_seed)
        find_loggers(self.family, self.quality, self.policies)
        num_expert = self.config.adapt.num_expert_episodes
        if "expert-context" in self.methods and num_expert > self.trajectories:
            raise IdaqError(
                f"Expert context of {num_expert} episodes needs more than "
                f"{self.trajectories} trajectories per task.",
                "Raise --trajectories, or lower --expert-episodes.",
            )
        if judge_kind(self.config) in map(judge_needed, self.methods):
            return self
        return dataclasses.replace(self, config=without_judge(self.config))

    def opened(self) -> AbstractContextManager[None]:
        """Hold the run directory."""
        loggers = find_loggers(self.family, self.quality, self.policies)
        data = generator(self.trajectories, self.data_seed, loggers) | {"quality": self.quality}
        return open_run(
            self.run,
            family=self.family,
            preset=self.preset,
            config=self.config,
            data=data,
            split=self.split,
            resume=self.resume,
        )


def run_all(
    run: RunDir,
    family: TaskFamily,
    *,
    preset: str = "default",
    config: RunConfig | None = None,
    methods: Sequence[str] = (),
    seeds: Seeds | None = None,
    trajectories: int = DEFAULT_TRAJECTORIES,
    data_seed: int = 0,
    quality: Quality = "expert",
    policies: Path | None = None,
    split: Split = "test",
    resume: bool = False,
    workers: int = 0,
    quiet: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """The main job on one family, data to summary: what `idaq run FAMILY` does."""
    job = Job(
        run=run,
        family=family,
        preset=preset,
        config=config or resolve(preset, family),
        methods=methods,
        seeds=seeds or Seeds(),
        trajectories=trajectories,
        data_seed=data_seed,
        quality=quality,
        policies=policies,
        split=split,
        resume=resume,
    )
    (summary,) = run_jobs([job], workers=workers, quiet=quiet, say=say)
    if isinstance(summary, IdaqError):
        raise summary
    return summary


def run_jobs(
    jobs: Sequence[Job],
    *,
    workers: int = 0,
    quiet: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any] | IdaqError]:
    """Several jobs; the summary of each one, in order, or the error that ended it.

    Their stages overlap: while one trains, the next one's data is collected and the one before
    adapts. A job that fails does not stop the others.
    """
    jobs = [job.checked() for job in jobs]
    with ExitStack() as stack:
        pool = stack.enter_context(WorkerPool(workers))
        for job in jobs:
            stack.enter_context(job.opened())
        if len(jobs) == 1:  # no threads: an interrupt ends it at once
            return [_outcome(lambda: _run_stages(jobs[0], pool, quiet, say))]
        collecting, adapting = stack.enter_context(stage_threads(pool))
        data = [collecting.submit(_collect_data, jobs[0], pool, quiet, say)]
        adapted: list[Future[dict[str, Any] | IdaqError]] = []
        for index, job in enumerate(jobs):
            dataset = _outcome(data[index].result)
            if index + 1 < len(jobs):
                data.append(collecting.submit(_collect_data, jobs[index + 1], pool, quiet, say))
            error = dataset if isinstance(dataset, IdaqError) else None
            if isinstance(dataset, Dataset):
                error = _outcome(partial(train_run, job.run, dataset, job.seeds, quiet))
            if error is not None:
                say(f"{job.family.name}: {error}")
                adapted.append(_known(error))
            else:
                stage = partial(_adapt_methods, job, pool, say)
                adapted.append(adapting.submit(_outcome, stage))
        return [future.result() for future in adapted]


@contextmanager
def stage_threads(pool: WorkerPool) -> Iterator[tuple[ThreadPoolExecutor, ThreadPoolExecutor]]:
    """A thread that collects and one that adapts, beside the one that trains; they use the pool."""
    with ThreadPoolExecutor(1, "collect") as collecting, ThreadPoolExecutor(1, "adapt") as adapting:
        try:
            yield collecting, adapting
        finally:
            pool.close()  # first: what the threads are waiting for
            for threads in (adapting, collecting):  # what has not begun when this is interrupted
                threads.shutdown(wait=False, cancel_futures=True)


def _run_stages(
    job: Job, pool: WorkerPool, quiet: bool, say: Callable[[str], None]
) -> dict[str, Any]:
    dataset = _collect_data(job, pool, quiet, say)
    train_run(job.run, dataset, job.seeds, quiet)
    return _adapt_methods(job, pool, say)


def _outcome(stage: Callable[[], T]) -> T | IdaqError:
    """What a stage returns, or the error that ended it."""
    try:
        return stage()
    except IdaqError as error:
        return error


def _known(error: IdaqError) -> "Future[dict[str, Any] | IdaqError]":
    future: Future[dict[str, Any] | IdaqError] = Future()
    future.set_result(error)
    return future


def _collect_data(job: Job, pool: WorkerPool, quiet: bool, say: Callable[[str], None]) -> Dataset:
    say(
        f"data of {job.family.name}: {job.family.num_tasks} tasks, "
        f"{job.trajectories} trajectories each"
        + (f", {job.quality} quality" if job.quality != "expert" else "")
    )
    return collect_into(
        job.run,
        job.family,
        job.trajectories,
        job.data_seed,
        pool,
        quiet,
        job.quality,
        job.policies,
    )


def _adapt_methods(job: Job, pool: WorkerPool, say: Callable[[str], None]) -> dict[str, Any]:
    rollouts = run_rollouts(job.run, pool)
    for method in job.methods:
        say(f"adapting {job.family.name}: {method}")
        adapt_run(job.run, method, rollouts, resume=True)
    return summarise(job.run)
