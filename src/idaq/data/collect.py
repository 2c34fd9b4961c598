"""Log every task of a family with the behaviour policy that knows it."""

import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from importlib import metadata as importlib_metadata
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from idaq.data.store import dataset_writer
from idaq.device import find_device
from idaq.envs.base import (
    HostFamily,
    JaxFamily,
    TaskFamily,
    check_seed,
    is_host_family,
    is_jax_family,
    is_scripted,
)
from idaq.errors import IdaqError
from idaq.progress import ProgressBar
from idaq.rollout import rollout
from idaq.types import Array, Episodes, PyTree
from idaq.workers import ExpertUnit, WorkerPool

DEFAULT_TRAJECTORIES = 45  # per task (Appendix C, table of environment settings)
MAX_TRAJECTORIES = 10_000  # those of a JAX family are collected in memory, all at once
UNIT_TRAJECTORIES = 1  # that a worker runs at a time: short units, so that nothing waits long


class ExpertPolicy:
    """A family's behaviour policy as a rollout policy; the hypothesis is the true task."""

    def __init__(self, family: JaxFamily) -> None:
        self.family = family

    def init_carry(self, params: PyTree, hypothesis: PyTree) -> PyTree:
        return ()

    def act(
        self, params: PyTree, hypothesis: PyTree, carry: PyTree, obs: Array, key: Array
    ) -> tuple[Any, PyTree]:
        return self.family.expert(hypothesis, obs, key), carry

    def take_reward(self, params: PyTree, carry: PyTree, reward: Array) -> PyTree:
        return carry


def collect(
    family: TaskFamily,
    path: Path,
    *,
    trajectories: int = DEFAULT_TRAJECTORIES,
    seed: int = 0,
    pool: WorkerPool | None = None,
    quiet: bool = False,
) -> None:
    """Write a dataset of `trajectories` episodes for every task of the family.

    A host family's episodes run in `pool`, or in workers of their own, and go to the disk as they
    come.
    """
    check_collection(trajectories, seed)
    if path.exists():
        raise IdaqError(f"'{path}' exists already.", "Choose another directory or remove it.")
    find_device()
    metadata = {
        "family": family.name,
        "family_version": family.version,
        "num_tasks": family.num_tasks,
        "task_params": family.task_params.tolist(),
        "quality": "expert",
        "generator": {"trajectories": trajectories, "seed": seed},
        "versions": library_versions(),
    }
    with dataset_writer(path, metadata) as writer:
        for episodes, tasks in _batches(family, trajectories, seed, pool, quiet):
            rows, lengths = _flatten(episodes)
            if not family.spec.has_success:
                del rows["success"]
            writer.append(rows, lengths, tasks)


def _batches(
    family: TaskFamily, trajectories: int, seed: int, pool: WorkerPool | None, quiet: bool
) -> Iterator[tuple[Episodes, Any]]:
    """Episodes [n, horizon, ...] and their tasks [n], sorted by task."""
    if is_jax_family(family):
        episodes = _expert_episodes(family, trajectories, jax.random.key(seed))
        tasks = np.repeat(np.arange(family.num_tasks), trajectories)
        yield jax.tree.map(np.asarray, episodes), tasks
    elif is_host_family(family):
        num_steps = family.num_tasks * trajectories * family.spec.horizon
        with (
            ProgressBar(f"collecting {family.name}", num_steps, "steps", quiet) as bar,
            nullcontext(pool) if pool is not None else WorkerPool() as workers,
        ):
            yield from _host_batches(family, trajectories, seed, workers, bar.advance_to)


def _host_batches(
    family: HostFamily,
    trajectories: int,
    seed: int,
    pool: WorkerPool,
    on_progress: Callable[[int], None],
) -> Iterator[tuple[Episodes, Any]]:
    """An episode's seed depends on its task and number alone, not on how episodes are batched."""
    units = [
        ExpertUnit(family, task, _episode_seeds(seed, task, start, trajectories))
        for task in range(family.num_tasks)
        for start in range(0, trajectories, UNIT_TRAJECTORIES)
    ]
    done = 0
    on_progress(done)
    for unit, episodes in zip(units, pool.results(units), strict=True):
        done += len(unit.seeds) * family.spec.horizon
        on_progress(done)
        yield episodes, np.full(len(unit.seeds), unit.task)


def scripted_episodes(
    family: TaskFamily, tasks: Any, seeds: Sequence[tuple[int, ...]], pool: WorkerPool
) -> Episodes:
    """One episode of each task in a row by its scripted expert, [n, horizon, ...]."""
    if is_scripted(family):
        pairs = zip(tasks, seeds, strict=True)
        units = [ExpertUnit(family, int(task), (seed,)) for task, seed in pairs]
        parts = list(pool.results(units))
        return Episodes(*(np.concatenate(field) for field in zip(*parts, strict=True)))
    if not is_jax_family(family):
        raise TypeError(f"{family.name} has no scripted expert")
    raw = np.stack([np.random.SeedSequence(seed).generate_state(2) for seed in seeds])
    keys = jax.random.wrap_key_data(jnp.asarray(raw))
    episodes = _task_episodes(family, jnp.asarray(tasks), keys)
    return Episodes(*(np.asarray(field) for field in episodes))


def check_collection(trajectories: int, seed: int) -> None:
    """Refuse options of `collect` that are out of range."""
    if not 1 <= trajectories <= MAX_TRAJECTORIES:
        raise IdaqError(
            f"--trajectories is {trajectories}.", f"Give 1 to {MAX_TRAJECTORIES:,} per task."
        )
    check_seed(seed)


@partial(jax.jit, static_argnums=(0, 1))
def _expert_episodes(family: JaxFamily, trajectories: int, key: Array) -> Episodes:
    """[num_tasks * trajectories, horizon, ...], sorted by task."""
    tasks = jnp.repeat(jnp.arange(family.num_tasks), trajectories)
    return _task_episodes(family, tasks, jax.random.split(key, len(tasks)))


@partial(jax.jit, static_argnums=0)
def _task_episodes(family: JaxFamily, tasks: Array, keys: Array) -> Episodes:
    policy = ExpertPolicy(family)
    return jax.vmap(lambda task, key: rollout(family, policy, (), task, task, key))(tasks, keys)


def _episode_seeds(
    seed: int, task: int, start: int, trajectories: int
) -> tuple[tuple[int, ...], ...]:
    stop = min(start + UNIT_TRAJECTORIES, trajectories)
    return tuple((seed, task, number) for number in range(start, stop))


def _flatten(episodes: Episodes) -> tuple[dict[str, Any], Any]:
    """Padded episodes [n, horizon, ...] to the rows that took place, and the lengths [n]."""
    valid = episodes.valid
    lengths = valid.sum(axis=1)
    truncated = np.zeros_like(episodes.terminated)
    truncated[np.arange(len(lengths)), lengths - 1] = True
    rows = {
        "observations": episodes.obs[valid],
        "actions": episodes.action[valid],
        "rewards": episodes.reward[valid],
        "next_observations": episodes.next_obs[valid],
        "terminated": episodes.terminated[valid],
        "truncated": (truncated & ~episodes.terminated)[valid],
        "success": episodes.success[valid],
    }
    return rows, lengths


def library_versions() -> dict[str, str]:
    """What the numbers depend on."""
    names = ("idaq", "jax", "jaxlib", "numpy", "mujoco", "metaworld")
    versions = {"python": platform.python_version()}
    for name in names:
        try:
            versions[name] = importlib_metadata.version(name)
        except importlib_metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions
