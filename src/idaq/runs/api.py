"""The stages from Python: what `idaq run`, `idaq train` and `idaq adapt` do.

A run directory may be given as a `RunDir`, a path or a string. A family that is not registered
has to be given as an object; a run of a registered one finds it by name.
"""

from collections.abc import Sequence
from pathlib import Path

from idaq.config import Json
from idaq.engine.device import find_device
from idaq.engine.pool import WorkerPool
from idaq.envs import get_family
from idaq.envs.family import TaskFamily
from idaq.errors import IdaqError
from idaq.runs.adapt_stage import adapt, rollouts_of
from idaq.runs.directory import RunDir
from idaq.runs.job import Job, Say, run_jobs
from idaq.runs.recipe import Recipe
from idaq.runs.resolve import resolve
from idaq.runs.run import Run, RunPlace, check_dataset_family
from idaq.runs.summary import summarise
from idaq.runs.train_stage import Seeds, train
from idaq.settings import (
    DEFAULT_PRESET,
    DEFAULT_QUALITY,
    DEFAULT_SPLIT,
    DEFAULT_TRAJECTORIES,
    AdaptConfig,
    Quality,
    RunConfig,
    Split,
)
from idaq.storage.dataset import open_dataset, read_metadata


def run_all(
    run: RunDir | Path | str,
    family: TaskFamily,
    *,
    preset: str = DEFAULT_PRESET,
    config: RunConfig | None = None,
    methods: Sequence[str] = (),
    seeds: Seeds | None = None,
    trajectories: int = DEFAULT_TRAJECTORIES,
    data_seed: int = 0,
    quality: Quality = DEFAULT_QUALITY,
    policies: Path | None = None,
    split: Split = DEFAULT_SPLIT,
    resume: bool = False,
    workers: int = 0,
    quiet: bool = False,
    say: Say = lambda _: None,
) -> Json:
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
    (outcome,) = run_jobs([job], workers=workers, quiet=quiet, say=say)
    if isinstance(outcome, IdaqError):
        raise outcome
    return outcome.summary


def train_all(
    run: RunDir | Path | str,
    data: Path | str,
    *,
    family: TaskFamily | None = None,
    preset: str = DEFAULT_PRESET,
    config: RunConfig | None = None,
    seeds: Seeds | None = None,
    split: Split = DEFAULT_SPLIT,
    resume: bool = False,
    quiet: bool = False,
) -> Run:
    """Train agents on a dataset: what `idaq train` does. Returns the run, to adapt it."""
    family = family or dataset_family(Path(data))
    dataset = open_dataset(Path(data), family.spec)
    check_dataset_family(dataset, family)
    recipe = Recipe(
        family=family,
        preset=preset,
        config=config or resolve(preset, family),
        data={"sha256": dataset.fingerprint},
        split=split,
    )
    with Run.claim(run, recipe, resume=resume, dataset=dataset) as claimed:
        train(claimed, dataset, seeds or Seeds(), quiet)
    return claimed


def adapt_all(
    run: RunPlace,
    method: str,
    *,
    family: TaskFamily | None = None,
    config: AdaptConfig | None = None,
    name: str | None = None,
    data: Path | None = None,
    resume: bool = False,
    workers: int = 0,
) -> Json:
    """Adapt a run's agents with one method: what `idaq adapt` does. Returns the summary."""
    run = Run.open(run, family)  # first, so that nothing but a run is locked
    find_device()
    with run.held(), WorkerPool(workers) as pool:
        rollouts = rollouts_of(run, pool)
        adapt(run, method, rollouts, config=config, name=name, data=data, resume=resume)
        return summarise(run)


def dataset_family(path: Path) -> TaskFamily:
    """The task family of a dataset."""
    return get_family(read_metadata(path)["family"])
