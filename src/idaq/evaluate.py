"""The meta-test loop, the only one: in lockstep over episodes, batched over tasks and seeds."""

from functools import partial
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from idaq.adapt.base import Adapter
from idaq.algos.base import Algorithm
from idaq.envs.base import TaskFamily
from idaq.rollout import rollout
from idaq.types import Array, Episodes, PyTree

Results = dict[str, NDArray[Any]]


def evaluate(
    family: TaskFamily,
    algorithm: Algorithm,
    adapter: Adapter,
    agents: PyTree,
    tasks: Array,
    keys: Array,
    given: Episodes | None = None,
) -> Results:
    """Adapt every seed's agent to its own tasks, and keep everything.

    `agents` has a leading seed axis, `tasks` is [seeds, tasks], `keys` [seeds], and `given`
    [seeds, tasks, n, horizon, ...]. Every array that comes back is [seeds, tasks, ...]; episodes
    are the third axis where there is one, and the last episode is the score.
    """
    state = _init(adapter, agents, keys, tasks, given)
    episodes, hypotheses = [], []
    for index in range(adapter.num_episodes):
        is_last = index == adapter.num_episodes - 1
        hypothesis, episode = _run_episode(
            family, algorithm, adapter, is_last, agents, state, tasks, keys, index
        )
        state = _observe(adapter, agents, state, hypothesis, episode)
        episodes.append(jax.tree.map(np.asarray, episode))
        hypotheses.append(np.asarray(hypothesis))
    record = jax.vmap(jax.vmap(adapter.record))(state)
    return _results(episodes, hypotheses, record, family)


def _results(
    episodes: list[Episodes], hypotheses: list[Any], record: dict[str, Any], family: TaskFamily
) -> Results:
    """Stack along the episode axis, the third one."""
    stacked = Episodes(*(np.stack(field, axis=2) for field in zip(*episodes, strict=True)))
    results: Results = {name: np.asarray(value) for name, value in record.items()}
    results["returns"] = np.asarray(stacked.returns)
    if family.spec.has_success:
        results["success"] = (stacked.success & stacked.valid).any(axis=-1)
    results["hypotheses"] = np.stack(hypotheses, axis=2)
    first = stacked.obs[..., :1, :]
    results["observations"] = np.concatenate([first, stacked.next_obs], axis=-2)
    results["valid"] = stacked.valid
    return results


@partial(jax.jit, static_argnums=0)
def _init(
    adapter: Adapter, agents: PyTree, keys: Array, tasks: Array, given: Episodes | None
) -> Any:
    def one_seed(agent: PyTree, key: Array, tasks: Array, given: Episodes | None) -> Any:
        task_keys = jax.random.split(jax.random.fold_in(key, 0), tasks.shape[0])
        return jax.vmap(adapter.init, in_axes=(None, 0, 0))(agent, task_keys, given)

    return jax.vmap(one_seed)(agents, keys, tasks, given)


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _run_episode(
    family: TaskFamily,
    algorithm: Algorithm,
    adapter: Adapter,
    is_last: bool,
    agents: PyTree,
    state: PyTree,
    tasks: Array,
    keys: Array,
    index: Array,
) -> tuple[Any, Episodes]:
    choose = adapter.commit if is_last else adapter.propose

    def one_task(agent: PyTree, state: PyTree, task: Array, key: Array) -> tuple[Any, Episodes]:
        hypothesis = choose(agent, state)
        return hypothesis, rollout(family, algorithm, agent, hypothesis, task, key)

    def one_seed(agent: PyTree, state: PyTree, tasks: Array, key: Array) -> tuple[Any, Episodes]:
        task_keys = jax.random.split(jax.random.fold_in(key, 1 + index), tasks.shape[0])
        return jax.vmap(one_task, in_axes=(None, 0, 0, 0))(agent, state, tasks, task_keys)

    return jax.vmap(one_seed)(agents, state, tasks, keys)


@partial(jax.jit, static_argnums=0)
def _observe(
    adapter: Adapter, agents: PyTree, state: PyTree, hypothesis: PyTree, episode: Episodes
) -> Any:
    over_tasks = jax.vmap(adapter.observe, in_axes=(None, 0, 0, 0))
    return jax.vmap(over_tasks)(agents, state, hypothesis, episode)
