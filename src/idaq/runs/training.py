"""Training on a run directory: every seed that has no agent yet."""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp

from idaq.algos.base import Algorithm
from idaq.algos.entries import ALGORITHMS, make_algorithm
from idaq.config import from_dict
from idaq.engine.device import forget_programs_when_many
from idaq.engine.progress import ProgressBar
from idaq.engine.train import diverged, train_data, train_group
from idaq.envs import get_family
from idaq.envs.family import TaskFamily, check_seed, reward_function, split_tasks, validation_split
from idaq.errors import IdaqError
from idaq.runs.directory import RunDir
from idaq.settings import RunConfig
from idaq.storage import checkpoint
from idaq.storage.atomic import remove, write_json
from idaq.storage.dataset import Dataset, open_dataset
from idaq.storage.describe import describe
from idaq.types import PyTree, TaskSplit

Split = Literal["test", "validation"]
MAX_SEEDS = 10_000


@dataclass(frozen=True, kw_only=True)
class Seeds:
    """Seeds first .. first + count - 1, and how many train together (0: chosen by device)."""

    count: int = 3
    first: int = 0
    at_once: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MAX_SEEDS:
            raise IdaqError(f"--seeds is {self.count}.", f"Give 1 to {MAX_SEEDS:,}.")
        check_seed(self.first)
        check_seed(self.first + self.count - 1)
        if self.at_once < 0:
            raise IdaqError(f"--seeds-at-once is {self.at_once}.", "Give 0 (automatic) or more.")

    def all(self) -> list[int]:
        return list(range(self.first, self.first + self.count))


def open_run_data(run: RunDir, path: Path, family: TaskFamily) -> Dataset:
    """A dataset that must be the one that the run is made from."""
    dataset = open_dataset(path, family.spec)
    check_dataset_family(dataset, family)
    generator, quality = dataset.metadata.get("generator"), dataset.metadata.get("quality")
    actual = {"sha256": dataset.fingerprint, "quality": quality}
    actual |= generator if isinstance(generator, dict) else {}
    expected = run.manifest()["identity"]["data"]
    if any(actual.get(key) != value for key, value in expected.items()):
        raise IdaqError(
            f"'{path}' is not the data that '{run.path}' was made from.",
            "Restore that dataset, or name it with --data.",
        )
    return dataset


def check_dataset_family(dataset: Dataset, family: TaskFamily) -> None:
    """Refuse data of another family or another number of tasks."""
    if dataset.family != family.name or dataset.num_tasks != family.num_tasks:
        raise IdaqError(
            f"'{dataset.path}' is data of {dataset.family} ({dataset.num_tasks} tasks), "
            f"and the run is of {family.name} ({family.num_tasks} tasks).",
            f"Collect data with `idaq collect {family.name}`.",
        )


def plan_groups(run: RunDir, seeds: Seeds) -> list[list[int]]:
    """The groups of seeds: those of the run so far, and new ones for seeds that are new."""
    groups = run.groups()
    known = {seed for group in groups for seed in group}
    wanted = seeds.all()
    if not known <= set(wanted):
        raise IdaqError(
            f"'{run.path}' has seeds {sorted(known)} and this asks for {wanted}.",
            f"Ask for at least those: --first-seed {min(known)} --seeds "
            f"{max(known) - min(known) + 1}.",
        )
    new = [seed for seed in wanted if seed not in known]
    size = seeds.at_once or (1 if jax.default_backend() == "cpu" else max(len(new), 1))
    groups = sorted(groups + [new[i : i + size] for i in range(0, len(new), size)])
    write_json(run.groups_file, groups)
    return groups


def split_of(run: RunDir, family: TaskFamily, seed: int) -> TaskSplit:
    """The tasks of a seed: for testing, or a split of the training tasks for validation."""
    validation = run.manifest()["identity"]["split"] == "validation"
    return (validation_split if validation else split_tasks)(family.num_tasks, seed)


def run_config(run: RunDir) -> RunConfig:
    """The resolved configuration of a run, whose agents today's code can use."""
    identity = run.manifest()["identity"]
    algo, family = identity["algo"], get_family(identity["family"])
    version = ALGORITHMS.get_entry(algo).version or 0
    _check_version(run, algo, identity["algo_version"], version)
    _check_version(run, family.name, identity["family_version"], family.version)
    return from_dict(RunConfig, identity["config"], f"'{run.manifest_file}': config")


def _check_version(run: RunDir, name: str, before: int, now: int) -> None:
    if before != now:
        raise IdaqError(
            f"'{run.path}' is of version {before} of '{name}'; this idaq has version {now}.",
            "Train again in another directory, or use the idaq that trained it.",
        )


def check_trainable(config: RunConfig, family: TaskFamily) -> None:
    """Everything that can be known to be wrong before an update is done."""
    algorithm, num_updates = make_algorithm(config.algorithm, family.spec), config.train.num_updates
    last_phase = algorithm.phases[-1][0]
    if last_phase >= num_updates:
        raise IdaqError(
            f"The run has {num_updates:,} updates, and '{algorithm.name}' trains its policy from "
            f"update {last_phase:,} on.",
            "Raise --updates, or shorten the phases before (--set algorithm.vae_updates=...).",
        )
    if algorithm.relabels and reward_function(family) is None:
        raise IdaqError(
            f"'{family.name}' cannot compute the rewards of other tasks' transitions.",
            "Train with --set algorithm.relabel=false.",
        )


def train_run(
    run: RunDir,
    dataset: Dataset,
    seeds: Seeds,
    quiet: bool = False,
    agents_every_updates: int = 0,
) -> None:
    """Train every seed that has no agent yet.

    With `agents_every_updates`, agents are kept during training as well, for learning curves.
    """
    family, config = get_family(run.manifest()["identity"]["family"]), run_config(run)
    check_dataset_family(dataset, family)
    if not run.dataset_file.is_file():
        write_json(run.dataset_file, describe(dataset))
    algorithm = make_algorithm(config.algorithm, family.spec)
    groups = plan_groups(run, seeds)
    todo = [g for g in groups if not all(run.agent_file(seed).is_file() for seed in g)]
    total = config.train.num_updates * sum(len(group) for group in groups)
    done = config.train.num_updates * sum(len(g) for g in groups if g not in todo)
    if todo:
        with ProgressBar(f"training {family.name}", total, "updates", quiet) as bar:
            for group in todo:
                every = agents_every_updates
                _train_group(run, dataset, family, algorithm, config, group, bar, done, every)
                done += config.train.num_updates * len(group)
    remove(run.checkpoints)


def _train_group(
    run: RunDir,
    dataset: Dataset,
    family: TaskFamily,
    algorithm: Algorithm,
    config: RunConfig,
    group: list[int],
    bar: ProgressBar,
    done_before: int,
    agents_every_updates: int,
) -> None:
    started = time.monotonic()
    forget_programs_when_many()
    splits = [split_of(run, family, seed) for seed in group]
    reward_of = reward_function(family) if algorithm.relabels else None
    data = train_data(dataset, algorithm, [split.train for split in splits], reward_of)
    agents = train_group(
        algorithm,
        config.train,
        data,
        group,
        run.checkpoint_file(group),
        [run.seed(seed) for seed in group],
        lambda done: bar.advance_to(done_before + done * len(group)),
        partial(_save_agents, run, group, splits) if agents_every_updates else None,
        agents_every_updates,
    )
    for seed, split in zip(group, splits, strict=True):
        tasks = {"train": split.train.tolist(), "test": split.test.tolist()}
        write_json(run.seed(seed) / "split.json", tasks)
    _save_agents(run, group, splits, None, agents)
    run.record_time(f"train_seeds_{group[0]}_to_{group[-1]}_s", time.monotonic() - started)
    remove(run.checkpoint_file(group))


def _save_agents(
    run: RunDir,
    group: list[int],
    splits: list[TaskSplit],
    updates: int | None,
    agents: list[PyTree],
) -> None:
    for seed, agent in zip(group, agents, strict=True):
        if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(agent)):
            raise diverged(seed, updates or run_config(run).train.num_updates)
    for seed, split, agent in zip(group, splits, agents, strict=True):
        metadata = {"seed": seed, "num_train_tasks": len(split.train)}
        checkpoint.save(run.agent_file(seed, updates), agent, metadata)
