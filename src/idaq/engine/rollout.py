"""Episodes from environments: one interface over two engines.

A policy is three pure functions (see `idaq.algos.base`): `init_carry`, `act` and `take_reward`.
`rollout` runs one episode of a JAX family as a scan over steps, and callers `vmap` it;
`ScannedRollouts` does so over agents and tasks. `HostRollouts` has worker processes run the same
episodes in a Gymnasium simulator.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from idaq.engine.policy import Policy
from idaq.engine.pool import WorkerPool
from idaq.engine.stopping import check_stopped
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


class Outcomes(NamedTuple):
    """How episodes ended."""

    returns: AnyArray  # [...]
    success: AnyArray  # [...] bool: at some step

    @classmethod
    def of(cls, episodes: Episodes) -> "Outcomes":
        """Of episodes [..., horizon, ...]."""
        on_host = Episodes(*map(np.asarray, episodes))
        success = (on_host.success & on_host.valid).any(axis=-1)
        return cls(np.asarray(on_host.returns), np.asarray(success))


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

    def outcomes(self, agents: PyTree, hypotheses: AnyArray, tasks: Array, keys: Key) -> Outcomes:
        """How episodes of several hypotheses per task end, [agents, num, tasks].

        `hypotheses` has three leading axes: agents, how many, and tasks. All those of a task run
        with its one key. The episodes themselves are not kept.
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
        check_stopped()
        episodes: Episodes = _scan_all(self.family, self.policy, agents, hypotheses, tasks, keys)
        return episodes

    def outcomes(self, agents: PyTree, hypotheses: AnyArray, tasks: Array, keys: Key) -> Outcomes:
        """One batch after the other: the program is that of `run`, and one batch is in memory."""
        num_agents, num = hypotheses.shape[:2]
        returns = np.zeros((num_agents, num, tasks.shape[1]), np.float32)
        found = Outcomes(returns, np.zeros(returns.shape, bool))
        for place in range(num):
            episodes = self.run(agents, hypotheses[:, place], tasks, keys)
            for all_, these in zip(found, Outcomes.of(episodes), strict=True):
                all_[:, place] = these
        return found


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


class _Planned(NamedTuple):
    """A unit, and the name of each episode that it runs."""

    names: list[bytes]
    unit: PolicyUnit


class HostRollouts:
    """Simulators in worker processes; equal episodes are run once.

    An agent with the same hypothesis on the same task with the same key gives the same episode, so
    the methods that share a reference stage run it once.
    """

    def __init__(self, family: HostFamily, policy: Policy, pool: WorkerPool) -> None:
        self.family, self.policy, self._pool = family, policy, pool
        self._known: dict[bytes, Episodes] = {}
        self._outcomes: dict[bytes, Outcomes] = {}  # of episodes that were not kept

    def run(
        self, agents: PyTree, hypotheses: Hypotheses | AnyArray, tasks: Array, keys: Key
    ) -> Episodes:
        only = np.asarray(hypotheses)[:, None]
        names, units = self._plan(agents, only, tasks, keys, set(self._known))
        for name, episode in self._play(units):
            self._known[name] = episode
        agents_episodes = [
            jax.tree.map(_stack, *(self._known[name] for name in each)) for (each,) in names
        ]
        stacked: Episodes = jax.tree.map(_stack, *agents_episodes)
        return stacked

    def outcomes(self, agents: PyTree, hypotheses: AnyArray, tasks: Array, keys: Key) -> Outcomes:
        known = self._known.keys() | self._outcomes.keys()
        names, units = self._plan(agents, hypotheses, tasks, keys, known)
        for name, episode in self._play(units):
            self._outcomes[name] = Outcomes.of(episode)
        found = [self._outcome(name) for agent in names for each in agent for name in each]
        shape = hypotheses.shape[:3]
        return Outcomes(*(np.stack(field).reshape(shape) for field in zip(*found, strict=True)))

    def _outcome(self, name: bytes) -> Outcomes:
        if name not in self._outcomes:
            self._outcomes[name] = Outcomes.of(self._known[name])
        return self._outcomes[name]

    def _plan(
        self, agents: PyTree, hypotheses: AnyArray, tasks: Array, keys: Key, known: set[bytes]
    ) -> tuple[list[list[list[bytes]]], list[_Planned]]:
        """The names of all episodes, [agents][num][tasks], and units that run those not known.

        A task keeps its row of the policy calls, so its hypotheses are in different units; those
        of different tasks share a unit.
        """
        host_agents = jax.tree.map(np.asarray, agents)
        tasks, raw_keys = np.asarray(tasks, np.int64), np.asarray(jax.random.key_data(keys))
        num = hypotheses.shape[1]
        size = max(1, min(UNIT_EPISODES, num * tasks.size // (2 * self._pool.num_workers)))
        names: list[list[list[bytes]]] = []
        units: list[_Planned] = []
        for index in range(tasks.shape[0]):
            file = self._pool.share_agent(jax.tree.map(lambda x, i=index: x[i], host_agents))
            mine = hypotheses[index]
            names.append([_episode_names(file, h, tasks[index], raw_keys[index]) for h in mine])
            for start in range(0, tasks.shape[1], UNIT_EPISODES):
                part = slice(start, start + UNIT_EPISODES)
                for rows in _rounds([each[part] for each in names[-1]], known):
                    chosen = mine[0, part].copy()
                    for row, number in rows.items():
                        chosen[row] = mine[number, start + row]
                    whole = PolicyUnit(
                        family=self.family,
                        policy=self.policy,
                        agent_file=file,
                        hypotheses=chosen,
                        tasks=tasks[index, part],
                        keys=raw_keys[index, part],
                    )
                    for first in range(0, len(rows), size):
                        some = tuple(rows)[first : first + size]
                        called = [names[-1][rows[row]][start + row] for row in some]
                        units.append(_Planned(called, replace(whole, rows=some)))
        return names, units

    def _play(self, units: list[_Planned]) -> Iterator[tuple[bytes, Episodes]]:
        """Every episode of the units, with its name."""
        results = self._pool.results(unit for _, unit in units)
        for (names, _), episodes in zip(units, results, strict=True):
            for place, name in enumerate(names):
                yield name, Episodes(*(field[place] for field in episodes))


def _rounds(names: list[list[bytes]], known: set[bytes]) -> list[dict[int, int]]:
    """What each row runs, unit after unit: rows, in order, to numbers of hypotheses.

    `names` is [num][rows]; what is new runs once, and joins `known`.
    """
    rounds: list[dict[int, int]] = []
    for row in range(len(names[0])):
        new = []
        for number, each in enumerate(names):
            if each[row] not in known:
                known.add(each[row])
                new.append(number)
        rounds.extend({} for _ in range(len(new) - len(rounds)))
        for place, number in enumerate(new):
            rounds[place][row] = number
    return rounds


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
