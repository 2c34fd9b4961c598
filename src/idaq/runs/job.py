"""The main job, data to summary, on one task family or on several.

Every stage skips what is done, so that an interrupted job goes on where it stopped.
"""

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from idaq.adapt.methods import METHODS, check_method_of, judge_needed, missing_judge
from idaq.algos.entries import ALGORITHMS
from idaq.behaviour.collect import check_collection, generator
from idaq.behaviour.quality import find_loggers
from idaq.config import Json
from idaq.engine.pool import WorkerPool
from idaq.envs.family import TaskFamily, check_environment
from idaq.errors import IdaqError
from idaq.runs.adapt_stage import adapt, check_models, rollouts_of
from idaq.runs.collect_stage import collect
from idaq.runs.directory import RunDir
from idaq.runs.recipe import Recipe
from idaq.runs.resolve import judge_kind, without_judge
from idaq.runs.run import Run
from idaq.runs.schedule import run_overlapping
from idaq.runs.summary import summarise
from idaq.runs.train_stage import Seeds, train
from idaq.settings import (
    DEFAULT_PRESET,
    DEFAULT_QUALITY,
    DEFAULT_SPLIT,
    DEFAULT_TRAJECTORIES,
    Quality,
    RunConfig,
    Split,
)
from idaq.storage.dataset import Dataset

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Job:
    """The main job on one family: data, agents, adaptation with some methods."""

    run: RunDir | Path | str  # its directory
    family: TaskFamily
    preset: str = DEFAULT_PRESET
    config: RunConfig
    methods: Sequence[str] = ()  # none: the algorithm's own comparison, with the judge there is
    seeds: Seeds = field(default_factory=Seeds)
    trajectories: int = DEFAULT_TRAJECTORIES
    data_seed: int = 0
    quality: Quality = DEFAULT_QUALITY
    policies: Path | None = None  # behaviour policies to use instead of the family's own
    split: Split = DEFAULT_SPLIT
    resume: bool = False

    def checked(self) -> "Job":
        """The job with its methods filled in and without unneeded models, or an error."""
        check_environment(self.family)
        kind = self.config.algorithm.kind
        if not self.methods:
            methods, judge = ALGORITHMS.get_entry(kind).default_methods, judge_kind(self.config)
            if judge is not None:  # those that it can serve
                methods = tuple(m for m in methods if missing_judge(m, kind, judge) is None)
            return dataclasses.replace(self, methods=methods).checked()
        for method in self.methods:
            check_method_of(kind, method)
            check_models(method, self.config)
        check_collection(self.trajectories, self.data_seed)
        find_loggers(self.family, self.quality, self.policies)
        num_expert = self.config.adapt.num_expert_episodes
        is_given_logs = any(METHODS[method].is_given_logs for method in self.methods)
        if is_given_logs and num_expert > self.trajectories:
            raise IdaqError(
                f"Expert context of {num_expert} episodes needs more than "
                f"{self.trajectories} trajectories per task.",
                "Raise `trajectories`, or lower `adapt.num_expert_episodes`.",
            )
        if judge_kind(self.config) in map(judge_needed, self.methods):
            return self
        return dataclasses.replace(self, config=without_judge(self.config))

    def recipe(self) -> Recipe:
        """The recipe of the job's run."""
        loggers = find_loggers(self.family, self.quality, self.policies)
        data = generator(self.trajectories, self.data_seed, loggers) | {"quality": self.quality}
        return Recipe(
            family=self.family,
            preset=self.preset,
            config=self.config,
            data=data,
            split=self.split,
        )

    def claimed(self) -> AbstractContextManager[Run]:
        """Hold the run directory."""
        return Run.claim(self.run, self.recipe(), resume=self.resume)


class Finished(NamedTuple):
    """A job that did not fail."""

    run: Run
    summary: Json


def run_jobs(
    jobs: Sequence[Job],
    *,
    workers: int = 0,
    quiet: bool = False,
    say: Say = lambda _: None,
) -> list[Finished | IdaqError]:
    """Run jobs; the run and summary of each one, in order, or the error that ended it.

    Their stages overlap. A job that fails does not stop the others.
    """
    jobs = [job.checked() for job in jobs]
    with ExitStack() as stack:
        pool = stack.enter_context(WorkerPool(workers))
        runs = [stack.enter_context(job.claimed()) for job in jobs]
        complain = say if len(jobs) > 1 else lambda _: None  # the caller raises a single error
        works = [
            _JobWork(job, run, pool, quiet, say, complain)
            for job, run in zip(jobs, runs, strict=True)
        ]
        run_overlapping(works, pool)
        return [work.outcome() for work in works]


class _JobWork:
    """A job at work, stage by stage."""

    def __init__(
        self, job: Job, run: Run, pool: WorkerPool, quiet: bool, say: Say, complain: Say
    ) -> None:
        self.job, self.run, self.pool, self.quiet = job, run, pool, quiet
        self.say, self.complain = say, complain
        self._dataset: Dataset | None = None
        self._summary: Json = {}
        self._error: IdaqError | None = None

    def prepare(self) -> None:
        job = self.job
        self.say(
            f"data of {job.family.name}: {job.family.num_tasks} tasks, "
            f"{job.trajectories} trajectories each"
            + (f", {job.quality} quality" if job.quality != "expert" else "")
        )
        self._dataset = collect(
            self.run,
            self.pool,
            trajectories=job.trajectories,
            seed=job.data_seed,
            quality=job.quality,
            policies=job.policies,
            quiet=self.quiet,
        )

    def train(self) -> None:
        assert self._dataset is not None, "prepare comes first"
        train(self.run, self._dataset, self.job.seeds, self.quiet)

    def finish(self) -> None:
        rollouts = rollouts_of(self.run, self.pool)
        for method in self.job.methods:
            self.say(f"adapting {self.job.family.name}: {method}")
            adapt(self.run, method, rollouts, resume=True)
        self._summary = summarise(self.run)

    def settle(self, error: Exception | None) -> None:
        if error is None:
            return
        if not isinstance(error, IdaqError):  # a bug ends all jobs
            raise error
        self._error = error
        self.complain(f"{self.job.family.name}: {error}")

    def outcome(self) -> Finished | IdaqError:
        """How the job ended, once all have."""
        return self._error or Finished(self.run, self._summary)
