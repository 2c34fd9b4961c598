"""Episodes from environments: one interface over two engines.

A policy is three pure functions (see `idaq.algos.base`): `init_carry`, `act` and `take_reward`.
`rollout` runs one episode of a JAX family as a scan over steps, and callers `vmap` it;
`ScannedRollouts` does so over agents and tasks. `HostRollouts` has worker processes run the same
episodes in a Gymnasium simulator.
"""

import hashlib
from dataclasses import replace
from functools import partial
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from idaq.engine.policy import Policy
from idaq.engine.pool import WorkerPool
from idaq.engine.units import UNIT_EPISODES, PolicyUnit
from idaq.envs.family import (
    HostFamily,
    JaxFamily,
    TaskFamily,
    check_environment,
    is_host_family,
    is_jax_family,
)
from idaq.types import (
    AnyArray,
    Array,
    Episodes,
    Hypotheses,
    Hypothesis,
    Key,
    Params,
    Places,
    PyTree,
    Scalar,
)


def rollout(
    family: JaxFamily,
    policy: Policy,
    params: Params,
    hypothesis: Hypothesis,
    task: Scalar,
    key: Key,
) -> Episodes:
    """One episode of `task`, padded to the horizon after termination."""
    reset_key, steps_key = jax.random.split(key)
    env_state, obs = family.reset(task, reset_key)

    def step(loop: tuple[PyTree, ...], step_key: Key) -> tuple[tuple[PyTree, ...], Episodes]:
        env_state, obs, carry, running = loop
        act_key, env_key = jax.random.split(step_key)
        action, carry = policy.act(params, hypothesis, carry, obs, act_key)
        env_state, result = family.step(task, env_state, action, env_key)
        carry = policy.take_reward(params, carry, result.reward)
        record = Episodes(
            obs=obs,
            action=action,
            reward=result.reward,
            next_obs=result.obs,
            terminated=result.terminated,
            success=result.success,
            valid=running,
        )
        return (env_state, result.obs, carry, running & ~result.terminated), record

    start = (env_state, obs, policy.init_carry(params, hypothesis), jnp.ones((), bool))
    _, episode = jax.lax.scan(step, start, jax.random.split(steps_key, family.spec.horizon))
    return episode


class Rollouts(Protocol):
    """Runs agents on their tasks."""

    @property
    def family(self) -> TaskFamily: ...

    def run(
        self, agents: PyTree, hypotheses: Hypotheses | AnyArray, tasks: Array, keys: Key
    ) -> Episodes:
        """One episode per task of every agent, [agents, tasks, horizon, ...].

        `agents` has a leading axis; `hypotheses`, `tasks` and `keys` have two: agents and tasks.
        """
        ...


def make_rollouts(
    family: TaskFamily, policy: Policy, pool: WorkerPool | None = None
) -> "ScannedRollouts | HostRollouts":
    """The engine of a family; a host family needs the pool."""
    check_environment(family)
    if is_jax_family(family):
        return ScannedRollouts(family, policy)
    if not is_host_family(family) or pool is None:
        raise ValueError(f"{family.name} runs in worker processes; give a WorkerPool")
    return HostRollouts(family, policy, pool)


class ScannedRollouts:
    """JAX environments: all episodes are one compiled program."""

    def __init__(self, family: JaxFamily, policy: Policy) -> None:
        self.family, self.policy = family, policy

    def run(
        self, agents: PyTree, hypotheses: Hypotheses | AnyArray, tasks: Array, keys: Key
    ) -> Episodes:
        episodes: Episodes = _scan_all(self.family, self.policy, agents, hypotheses, tasks, keys)
        return episodes


@partial(jax.jit, static_argnums=(0, 1))
def _scan_all(
    family: JaxFamily,
    policy: Policy,
    agents: PyTree,
    hypotheses: Hypotheses,
    tasks: Places,
    keys: Key,
) -> Episodes:
    def one(agent: PyTree, hypothesis: Hypothesis, task: Scalar, key: Key) -> Episodes:
        return rollout(family, policy, agent, hypothesis, task, key)

    over_tasks = jax.vmap(one, in_axes=(None, 0, 0, 0))
    episodes: Episodes = jax.vmap(over_tasks)(agents, hypotheses, tasks, keys)
    return episodes


class HostRollouts:
    """Simulators in worker processes; equal episodes are run once.

    An agent with the same hypothesis on the same task with the same key gives the same episode, so
    the methods that share a reference stage run it once.
    """

    def __init__(self, family: HostFamily, policy: Policy, pool: WorkerPool) -> None:
        self.family, self.policy, self._pool = family, policy, pool
        self._known: dict[bytes, Episodes] = {}

    def run(
        self, agents: PyTree, hypotheses: Hypotheses | AnyArray, tasks: Array, keys: Key
    ) -> Episodes:
        host_agents, host_hypotheses = jax.tree.map(np.asarray, (agents, hypotheses))
        tasks, raw_keys = np.asarray(tasks, np.int64), np.asarray(jax.random.key_data(keys))
        units: list[PolicyUnit] = []
        names: list[list[bytes]] = []  # of every agent's episodes
        unit_names: list[list[bytes]] = []  # of those that a unit runs
        size = max(1, min(UNIT_EPISODES, tasks.size // (2 * self._pool.num_workers)))
        for index in range(tasks.shape[0]):
            agent, mine = jax.tree.map(lambda x, i=index: x[i], (host_agents, host_hypotheses))
            file = self._pool.share_agent(agent)
            names.append(_episode_names(file, mine, tasks[index], raw_keys[index]))
            for start in range(0, tasks.shape[1], UNIT_EPISODES):
                part = slice(start, start + UNIT_EPISODES)
                new = [row for row, name in enumerate(names[-1][part]) if name not in self._known]
                whole = PolicyUnit(
                    family=self.family,
                    policy=self.policy,
                    agent_file=file,
                    hypotheses=mine[part],
                    tasks=tasks[index, part],
                    keys=raw_keys[index, part],
                )
                for first in range(0, len(new), size):
                    rows = tuple(new[first : first + size])
                    units.append(replace(whole, rows=rows))
                    unit_names.append([names[-1][start + row] for row in rows])
        for ran, episodes in zip(unit_names, self._pool.results(units), strict=True):
            for place, name in enumerate(ran):
                self._known[name] = Episodes(*(field[place] for field in episodes))
        agents_episodes = [
            jax.tree.map(_stack, *(self._known[name] for name in each)) for each in names
        ]
        stacked: Episodes = jax.tree.map(_stack, *agents_episodes)
        return stacked


def _stack(*arrays: AnyArray) -> AnyArray:
    return np.stack(arrays)


def _episode_names(
    agent_file: str, hypotheses: AnyArray, tasks: NDArray[np.int64], keys: NDArray[np.uint32]
) -> list[bytes]:
    """One name for everything that decides an episode."""
    leaves = (tasks, keys, hypotheses)
    wholes = (
        b"|".join([agent_file.encode(), *(leaf[row].tobytes() for leaf in leaves)])
        for row in range(len(tasks))
    )
    return [hashlib.sha256(whole).digest() for whole in wholes]
