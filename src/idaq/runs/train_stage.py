"""The training stage of a run: every seed that has no agent yet."""

import time
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

from idaq.engine.device import forget_programs_when_many
from idaq.engine.progress import ProgressBar
from idaq.engine.train import DivergedError, train_data, train_group
from idaq.envs.family import check_seed, reward_function
from idaq.errors import IdaqError
from idaq.runs.run import Run, check_dataset_family
from idaq.settings import DEFAULT_SEEDS
from idaq.storage import checkpoint
from idaq.storage.atomic import remove, write_json
from idaq.storage.dataset import Dataset
from idaq.storage.describe import describe
from idaq.types import PyTree, TaskSplit

MAX_SEEDS = 10_000


@dataclass(frozen=True, kw_only=True)
class Seeds:
    """Seeds first .. first + count - 1, and how many train together (0: chosen by device)."""

    count: int = DEFAULT_SEEDS
    first: int = 0
    at_once: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MAX_SEEDS:
            raise IdaqError(f"`seeds.count` is {self.count}.", f"Give 1 to {MAX_SEEDS:,}.")
        check_seed(self.first)
        check_seed(self.first + self.count - 1)
        if self.at_once < 0:
            raise IdaqError(f"`seeds.at_once` is {self.at_once}.", "Give 0 (automatic) or more.")

    def all(self) -> list[int]:
        return list(range(self.first, self.first + self.count))


def plan_groups(run: Run, seeds: Seeds) -> list[list[int]]:
    """The groups of seeds: those of the run so far, and new ones for new seeds."""
    groups = run.groups()
    known = {seed for group in groups for seed in group}
    wanted = seeds.all()
    if not known <= set(wanted):
        raise IdaqError(
            f"'{run.path}' has seeds {sorted(known)} and this asks for {wanted}.",
            f"Ask for at least those: `seeds.first={min(known)}` "
            f"`seeds.count={max(known) - min(known) + 1}`.",
        )
    new = [seed for seed in wanted if seed not in known]
    size = seeds.at_once or (1 if jax.default_backend() == "cpu" else max(len(new), 1))
    groups = sorted(groups + [new[i : i + size] for i in range(0, len(new), size)])
    write_json(run.directory.groups_file, groups)
    return groups


def train(
    run: Run,
    dataset: Dataset,
    seeds: Seeds,
    quiet: bool = False,
    agents_every_updates: int = 0,
) -> None:
    """Train every group of seeds that lacks an agent; one that diverges does not stop the others.

    With `agents_every_updates`, agents are kept during training as well, for learning curves.
    """
    place, updates_each = run.directory, run.config.train.num_updates
    check_dataset_family(dataset, run.family)
    if not place.dataset_file.is_file():
        write_json(place.dataset_file, describe(dataset))
    groups = plan_groups(run, seeds)
    todo = [g for g in groups if not all(place.agent_file(seed).is_file() for seed in g)]
    total = updates_each * sum(len(group) for group in groups)
    done = updates_each * sum(len(g) for g in groups if g not in todo)
    lost: list[DivergedError] = []
    if todo:
        with ProgressBar(f"training {run.family.name}", total, "updates", quiet) as bar:
            for group in todo:
                try:
                    _train_group(run, dataset, group, bar, done, agents_every_updates)
                except DivergedError as error:
                    lost.append(error)
                done += updates_each * len(group)
    if lost:
        seeds_lost = [seed for error in lost for seed in error.seeds]
        raise DivergedError(seeds_lost, max(error.num_updates for error in lost))
    remove(place.checkpoints)


def _train_group(
    run: Run,
    dataset: Dataset,
    group: list[int],
    bar: ProgressBar,
    done_before: int,
    agents_every_updates: int,
) -> None:
    started, place = time.monotonic(), run.directory
    forget_programs_when_many()
    splits = [run.split_of(seed) for seed in group]
    reward_of = reward_function(run.family) if run.algorithm.relabels else None
    data = train_data(dataset, run.algorithm, [split.train for split in splits], reward_of)
    agents = train_group(
        run.algorithm,
        run.config.train,
        data,
        group,
        place.checkpoint_file(group),
        [place.seed(seed) for seed in group],
        lambda done: bar.advance_to(done_before + done * len(group)),
        partial(_save_agents, run, group, splits) if agents_every_updates else None,
        agents_every_updates,
    )
    for seed, split in zip(group, splits, strict=True):
        tasks = {"train": split.train.tolist(), "test": split.test.tolist()}
        write_json(place.seed(seed) / "split.json", tasks)
    _save_agents(run, group, splits, None, agents)
    run.record_time(f"train_seeds_{group[0]}_to_{group[-1]}_s", time.monotonic() - started)
    remove(place.checkpoint_file(group))


def _save_agents(
    run: Run,
    group: list[int],
    splits: list[TaskSplit],
    updates: int | None,
    agents: list[PyTree],
) -> None:
    lost = []
    for seed, split, agent in zip(group, splits, agents, strict=True):
        if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(agent)):
            lost.append(seed)
            continue
        metadata = {"seed": seed, "num_train_tasks": len(split.train)}
        checkpoint.save(run.directory.agent_file(seed, updates), agent, metadata)
    if lost and (updates is None or len(lost) == len(group)):
        raise DivergedError(lost, updates or run.config.train.num_updates)
