"""Log every task of a family with the behaviour policy that knows it."""

import platform
from functools import partial
from importlib import metadata as importlib_metadata
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from idaq.data.store import write_dataset
from idaq.device import find_device
from idaq.envs.base import TaskFamily, check_seed
from idaq.errors import IdaqError
from idaq.rollout import rollout
from idaq.types import Array, Episodes, PyTree

DEFAULT_TRAJECTORIES = 45  # per task (Appendix C, table of environment settings)
MAX_TRAJECTORIES = 10_000  # they are collected in memory, all at once


class ExpertPolicy:
    """A family's behaviour policy as a rollout policy; the hypothesis is the true task."""

    def __init__(self, family: TaskFamily) -> None:
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
    family: TaskFamily, path: Path, *, trajectories: int = DEFAULT_TRAJECTORIES, seed: int = 0
) -> None:
    """Write a dataset of `trajectories` episodes for every task of the family."""
    check_collection(trajectories, seed)
    if path.exists():
        raise IdaqError(f"'{path}' exists already.", "Choose another directory or remove it.")
    find_device()
    episodes = _expert_episodes(family, trajectories, jax.random.key(seed))
    arrays = _flatten(jax.tree.map(np.asarray, episodes))
    arrays["episode_task"] = np.repeat(np.arange(family.num_tasks), trajectories)
    if not family.spec.has_success:
        del arrays["success"]
    write_dataset(
        path,
        arrays,
        {
            "family": family.name,
            "family_version": family.version,
            "num_tasks": family.num_tasks,
            "task_params": family.task_params.tolist(),
            "quality": "expert",
            "generator": {"trajectories": trajectories, "seed": seed},
            "versions": library_versions(),
        },
    )


def check_collection(trajectories: int, seed: int) -> None:
    """Refuse options of `collect` that are out of range."""
    if not 1 <= trajectories <= MAX_TRAJECTORIES:
        raise IdaqError(
            f"--trajectories is {trajectories}.", f"Give 1 to {MAX_TRAJECTORIES:,} per task."
        )
    check_seed(seed)


@partial(jax.jit, static_argnums=(0, 1))
def _expert_episodes(family: TaskFamily, trajectories: int, key: Array) -> Episodes:
    """[num_tasks * trajectories, horizon, ...], sorted by task."""
    tasks = jnp.repeat(jnp.arange(family.num_tasks), trajectories)
    policy = ExpertPolicy(family)
    keys = jax.random.split(key, len(tasks))
    return jax.vmap(lambda task, key: rollout(family, policy, (), task, task, key))(tasks, keys)


def _flatten(episodes: Episodes) -> dict[str, Any]:
    """Padded episodes [num_tasks * trajectories, horizon, ...] to the rows that took place."""
    valid = episodes.valid
    lengths = valid.sum(axis=1)
    num_episodes = len(lengths)
    truncated = np.zeros_like(episodes.terminated)
    truncated[np.arange(num_episodes), lengths - 1] = True
    return {
        "observations": episodes.obs[valid],
        "actions": episodes.action[valid],
        "rewards": episodes.reward[valid],
        "next_observations": episodes.next_obs[valid],
        "terminated": episodes.terminated[valid],
        "truncated": (truncated & ~episodes.terminated)[valid],
        "success": episodes.success[valid],
        "episode_offsets": np.concatenate([[0], np.cumsum(lengths)]),
    }


def library_versions() -> dict[str, str]:
    """What the numbers depend on."""
    names = ("idaq", "jax", "jaxlib", "numpy")
    versions = {"python": platform.python_version()}
    for name in names:
        try:
            versions[name] = importlib_metadata.version(name)
        except importlib_metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions
