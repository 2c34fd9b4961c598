"""Log every task of a family with behaviour policies that know it, or with none."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from idaq.behaviour.quality import Loggers, find_loggers
from idaq.config import Json
from idaq.engine.device import find_device
from idaq.engine.pool import WorkerPool
from idaq.engine.progress import ProgressBar
from idaq.engine.provenance import library_versions
from idaq.engine.rollout import ScannedRollouts, rollout
from idaq.engine.units import UNIT_EPISODES, ExpertUnit, PolicyUnit
from idaq.envs.family import (
    HostFamily,
    JaxFamily,
    TaskFamily,
    check_environment,
    check_seed,
    is_host_family,
    is_jax_family,
    is_scripted,
)
from idaq.errors import IdaqError
from idaq.settings import DEFAULT_QUALITY, DEFAULT_TRAJECTORIES, Quality
from idaq.storage.dataset import dataset_writer
from idaq.types import (
    Action,
    AnyArray,
    Array,
    Carry,
    Episodes,
    IntArray,
    Key,
    Params,
    PyTree,
    Scalar,
)

MAX_TRAJECTORIES = 10_000  # those of a JAX family are collected in memory, all at once
REFERENCE_EPISODES = 2  # per task, by the expert, where others log the data
UNIT_TRAJECTORIES = 1  # that a worker runs at a time: short units, so that nothing waits long


class ExpertPolicy:
    """A family's behaviour policy as a rollout policy; the hypothesis is the true task."""

    def __init__(self, family: JaxFamily) -> None:
        self.family = family

    def init_carry(self, params: Params, hypothesis: PyTree) -> Carry:
        return ()

    def act(
        self, params: Params, hypothesis: PyTree, carry: Carry, obs: jax.Array, key: Key
    ) -> tuple[Action, Carry]:
        return self.family.expert(hypothesis, obs, key), carry

    def take_reward(self, params: Params, carry: Carry, reward: Scalar) -> Carry:
        return carry


def collect(
    family: TaskFamily,
    path: Path,
    *,
    trajectories: int = DEFAULT_TRAJECTORIES,
    seed: int = 0,
    quality: Quality = DEFAULT_QUALITY,
    policies: Path | None = None,
    pool: WorkerPool | None = None,
    quiet: bool = False,
) -> None:
    """Write a dataset of `trajectories` episodes for every task of the family.

    `quality` says who logs them (see `idaq.behaviour.quality`), `policies` names a directory of
    trained policies. A host family's episodes run in `pool`, or in workers of their own,
    and go to the disk as they come.
    """
    check_collection(trajectories, seed)
    if path.exists():
        raise IdaqError(f"'{path}' exists already.", "Choose another directory or remove it.")
    check_environment(family)
    find_device()
    loggers = find_loggers(family, quality, policies)
    with nullcontext(pool) if pool is not None else WorkerPool() as workers:
        metadata = {
            "family": family.name,
            "family_version": family.version,
            "num_tasks": family.num_tasks,
            "task_params": family.task_params.tolist(),
            "quality": quality,
            "behaviour": {"kind": "scripted"} if loggers is None else loggers.provenance,
            "generator": generator(trajectories, seed, loggers),
            "versions": library_versions(),
        }
        if loggers is not None and is_scripted(family) and family.spec.has_success:
            metadata["expert"] = _scripted_successes(family, seed, workers)
        with dataset_writer(path, metadata) as writer:
            for episodes, tasks in _batches(family, loggers, trajectories, seed, workers, quiet):
                rows, lengths = _flatten(episodes)
                if not family.spec.has_success:
                    del rows["success"]
                writer.append(rows, lengths, tasks)


def generator(trajectories: int, seed: int, loggers: Loggers | None) -> Json:
    """What decides the rows of a dataset, besides family and quality."""
    decides: Json = {"trajectories": trajectories, "seed": seed}
    if loggers is not None and loggers.fingerprint is not None:
        decides["policies"] = loggers.fingerprint
    return decides


def _scripted_successes(family: TaskFamily, seed: int, pool: WorkerPool) -> Json:
    """Successes and successful returns of the scripted expert, per task: the scale of scores."""
    tasks = np.repeat(np.arange(family.num_tasks), REFERENCE_EPISODES)
    seeds = [(seed, int(task), number) for number, task in enumerate(tasks)]
    episodes = scripted_episodes(family, tasks, seeds, pool)
    success = episodes.success.any(axis=1)
    num = np.bincount(tasks[success], minlength=family.num_tasks)
    total = np.bincount(tasks[success], episodes.returns[success], minlength=family.num_tasks)
    return {
        "successes": num.tolist(),
        "successful_returns": (total / np.maximum(num, 1)).tolist(),
    }


def _batches(
    family: TaskFamily,
    loggers: Loggers | None,
    trajectories: int,
    seed: int,
    pool: WorkerPool,
    quiet: bool,
) -> Iterator[tuple[Episodes, IntArray]]:
    """Episodes [n, horizon, ...] and their tasks [n], sorted by task.

    An episode depends on its task and number alone, not on how episodes are batched.
    """
    if is_jax_family(family):
        tasks = np.repeat(np.arange(family.num_tasks), trajectories)
        if loggers is None:
            episodes = _expert_episodes(family, trajectories, jax.random.key(seed))
            yield jax.tree.map(np.asarray, episodes), tasks
        else:
            yield _scanned_episodes(family, loggers, trajectories, seed), tasks
    elif is_host_family(family):
        num_steps = family.num_tasks * trajectories * family.spec.horizon
        with ProgressBar(f"collecting {family.name}", num_steps, "steps", quiet) as bar:
            units = _units(family, loggers, trajectories, seed, pool)
            results = pool.results(unit for unit, _ in units)
            done = 0
            bar.advance_to(done)
            for (_, tasks), episodes in zip(units, results, strict=True):
                done += len(tasks) * family.spec.horizon
                bar.advance_to(done)
                yield episodes, tasks


def _units(
    family: HostFamily, loggers: Loggers | None, trajectories: int, seed: int, pool: WorkerPool
) -> list[tuple[ExpertUnit | PolicyUnit, IntArray]]:
    """Work for the workers, and the tasks of its episodes."""
    units: list[tuple[ExpertUnit | PolicyUnit, IntArray]] = []
    if loggers is None:
        if not is_scripted(family):
            raise TypeError(f"{family.name} has no scripted expert")
        for task in range(family.num_tasks):
            for start in range(0, trajectories, UNIT_TRAJECTORIES):
                seeds = _episode_seeds(seed, task, start, trajectories)
                units.append((ExpertUnit(family, task, seeds), np.full(len(seeds), task)))
        return units
    files = [pool.share_agent(agent) for agent in loggers.agents]
    keys = _episode_keys(family.num_tasks, trajectories, seed)
    for task in range(family.num_tasks):
        for agent, numbers in _shares(loggers, trajectories):
            for start in range(0, len(numbers), UNIT_EPISODES):
                part = numbers[start : start + UNIT_EPISODES]
                tasks = np.full(len(part), task)
                unit = PolicyUnit(
                    family=family,
                    policy=loggers.policy,
                    agent_file=files[agent],
                    hypotheses=loggers.conditions[tasks],
                    tasks=tasks,
                    keys=keys[task, part],
                    rows=tuple(range(len(part))),
                )
                units.append((unit, tasks))
    return units


def _shares(loggers: Loggers, trajectories: int) -> list[tuple[int, NDArray[np.int64]]]:
    """Every agent, with the numbers of a task's episodes that it logs."""
    agent_of = loggers.agent_of(trajectories)
    return [(int(agent), np.flatnonzero(agent_of == agent)) for agent in np.unique(agent_of)]


def _episode_keys(num_tasks: int, trajectories: int, seed: int) -> NDArray[np.uint32]:
    """Raw keys by task and number, [num_tasks, trajectories, 2]."""

    def of(task: Scalar, number: Scalar) -> Key:
        return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), task), number)

    keys = jax.vmap(jax.vmap(of, (None, 0)), (0, None))(
        jnp.arange(num_tasks), jnp.arange(trajectories)
    )
    return np.asarray(jax.random.key_data(keys))


def _scanned_episodes(
    family: JaxFamily, loggers: Loggers, trajectories: int, seed: int
) -> Episodes:
    """[num_tasks * trajectories, horizon, ...], sorted by task, one agent after the other."""
    keys = _episode_keys(family.num_tasks, trajectories, seed)
    rollouts, parts = ScannedRollouts(family, loggers.policy), []
    for agent, numbers in _shares(loggers, trajectories):
        tasks = np.repeat(np.arange(family.num_tasks), len(numbers))
        agents = jax.tree.map(lambda x: x[None], loggers.agents[agent])
        own = jax.random.wrap_key_data(jnp.asarray(keys[:, numbers].reshape(-1, 2)))
        told = loggers.conditions[tasks]
        episodes = rollouts.run(agents, told[None], tasks[None], own[None])
        shape = (family.num_tasks, len(numbers))
        parts.append([np.asarray(x).reshape(*shape, *x.shape[2:]) for x in episodes])
    joined = (np.concatenate(fields, axis=1) for fields in zip(*parts, strict=True))
    return Episodes(*(field.reshape(-1, *field.shape[2:]) for field in joined))


def scripted_episodes(
    family: TaskFamily, tasks: IntArray, seeds: Sequence[tuple[int, ...]], pool: WorkerPool
) -> Episodes:
    """One episode of each task in a row by its scripted expert, [n, horizon, ...]."""
    if is_scripted(family):
        parts = list(
            pool.results(
                ExpertUnit(family, int(task), (seed,))
                for task, seed in zip(tasks, seeds, strict=True)
            )
        )
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
            f"`trajectories` is {trajectories}.", f"Give 1 to {MAX_TRAJECTORIES:,} per task."
        )
    check_seed(seed)


@partial(jax.jit, static_argnums=(0, 1))
def _expert_episodes(family: JaxFamily, trajectories: int, key: Key) -> Episodes:
    """[num_tasks * trajectories, horizon, ...], sorted by task."""
    tasks = jnp.repeat(jnp.arange(family.num_tasks), trajectories)
    episodes: Episodes = _task_episodes(family, tasks, jax.random.split(key, len(tasks)))
    return episodes


@partial(jax.jit, static_argnums=0)
def _task_episodes(family: JaxFamily, tasks: Array, keys: Key) -> Episodes:
    policy = ExpertPolicy(family)
    episodes: Episodes = jax.vmap(lambda task, key: rollout(family, policy, (), task, task, key))(
        tasks, keys
    )
    return episodes


def _episode_seeds(
    seed: int, task: int, start: int, trajectories: int
) -> tuple[tuple[int, ...], ...]:
    stop = min(start + UNIT_TRAJECTORIES, trajectories)
    return tuple((seed, task, number) for number in range(start, stop))


def _flatten(episodes: Episodes) -> tuple[dict[str, AnyArray], IntArray]:
    """Padded episodes [n, horizon, ...] to the rows that took place, and the lengths [n]."""
    obs, action, reward, next_obs, terminated, success, valid = map(np.asarray, episodes)
    lengths = valid.sum(axis=1)
    truncated = np.zeros_like(terminated)
    truncated[np.arange(len(lengths)), lengths - 1] = True
    rows = {
        "observations": obs[valid],
        "actions": action[valid],
        "rewards": reward[valid],
        "next_observations": next_obs[valid],
        "terminated": terminated[valid],
        "truncated": (truncated & ~terminated)[valid],
        "success": success[valid],
    }
    return rows, lengths
