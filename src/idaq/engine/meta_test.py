"""The meta-test loop, the only one: in lockstep over episodes, batched over tasks and seeds.

Beside the episodes of the budget it tells what the score would have been, had the budget been
shorter: for every k, one more episode runs what the adapter would have committed to after k - 1
episodes. The adapter never sees these episodes, and they run with the keys of the final one, so
that the last of them is the final episode itself.
"""

from functools import partial

import jax
import numpy as np

from idaq.adapt.base import Adapter, Record
from idaq.engine.rollout import Outcomes, Rollouts
from idaq.envs.family import TaskFamily, is_jax_family
from idaq.types import AnyArray, Array, Episodes, Hypotheses, Key, Places, PyTree

Results = dict[str, AnyArray]
MAX_SAVED_HYPOTHESIS = 1_000  # numbers; adapted weights are too many to keep for every episode


def evaluate(
    rollouts: Rollouts,
    adapter: Adapter,
    agents: PyTree,
    tasks: Array,
    keys: Key,
    given: Episodes | None = None,
    *,
    anytime: bool = True,
) -> Results:
    """Adapt every seed's agent to its own tasks, and keep everything.

    `agents` has a leading seed axis, `tasks` is [seeds, tasks], `keys` [seeds], and `given`
    [seeds, tasks, n, horizon, ...]. Every array that comes back is [seeds, tasks, ...]; episodes
    are the third axis where there is one, and the last episode is the score. Without `anytime`,
    the scores of shorter budgets are left out.
    """
    state = _init(adapter, agents, keys, tasks, given)
    last = adapter.num_episodes - 1
    episodes, hypotheses, committed = [], [], []
    for index in range(adapter.num_episodes):
        is_last = index == last
        hypothesis, episode_keys = _propose(adapter, is_last, agents, state, tasks, keys, index)
        if anytime:
            now = hypothesis  # also before anything was seen: it is what is tried first
            if not (is_last or index == 0):
                now, _ = _propose(adapter, True, agents, state, tasks, keys, last)
            committed.append(np.asarray(now))
        episode = rollouts.run(agents, hypothesis, tasks, episode_keys)
        state = _observe(adapter, agents, state, hypothesis, episode)
        episodes.append(jax.tree.map(np.asarray, episode))
        if _is_saved(hypothesis):
            hypotheses.append(np.asarray(hypothesis))
    record = jax.vmap(jax.vmap(adapter.record))(state)
    results = _results(episodes, hypotheses, record, rollouts.family)
    if anytime:
        results |= _anytime(rollouts, agents, committed, tasks, episode_keys, results)
    return results


def _is_saved(hypothesis: Array) -> bool:
    return hypothesis.shape[-1] <= MAX_SAVED_HYPOTHESIS


def _results(
    episodes: list[Episodes], hypotheses: list[AnyArray], record: Record, family: TaskFamily
) -> Results:
    """Stack along the episode axis, the third one."""
    stacked = Episodes(*(np.stack(field, axis=2) for field in zip(*episodes, strict=True)))
    outcomes = Outcomes.of(stacked)
    results: Results = {name: np.asarray(value) for name, value in record.items()}
    results["returns"] = outcomes.returns
    results.setdefault("kept", np.zeros(results["returns"].shape, bool))
    if family.spec.has_success:
        results["success"] = outcomes.success
    if hypotheses:
        results["hypotheses"] = np.stack(hypotheses, axis=2)
    if is_jax_family(family):  # these are small; a simulator's would dwarf the rest
        first = stacked.obs[..., :1, :]
        results["observations"] = np.concatenate([first, stacked.next_obs], axis=-2)
        results["valid"] = np.asarray(stacked.valid)
    return results


def _anytime(
    rollouts: Rollouts,
    agents: PyTree,
    committed: list[AnyArray],
    tasks: Array,
    keys: Key,
    results: Results,
) -> Results:
    """The scores of budgets of 1, 2, ... episodes; the whole budget's is the final episode's."""
    hypotheses = np.stack(committed, axis=1)  # [seeds, budgets, tasks, latent_dim]
    whole = {name: results[name][..., -1:] for name in Outcomes._fields if name in results}
    if len(committed) == 1:
        found = {f"anytime_{name}": values for name, values in whole.items()}
    else:
        outcomes = rollouts.outcomes(agents, hypotheses[:, :-1], tasks, keys)._asdict()
        shorter = {name: np.moveaxis(outcomes[name], 1, 2) for name in whole}
        found = {
            f"anytime_{name}": np.concatenate([shorter[name], whole[name]], axis=2)
            for name in whole
        }
    if _is_saved(hypotheses):
        found["anytime_hypotheses"] = np.moveaxis(hypotheses, 1, 2)
    return found


@partial(jax.jit, static_argnums=0)
def _init(
    adapter: Adapter, agents: PyTree, keys: Key, tasks: Places, given: Episodes | None
) -> PyTree:
    def one_seed(agent: PyTree, key: Key, tasks: Places, given: Episodes | None) -> PyTree:
        task_keys = jax.random.split(jax.random.fold_in(key, 0), tasks.shape[0])
        return jax.vmap(adapter.init, in_axes=(None, 0, 0))(agent, task_keys, given)

    return jax.vmap(one_seed)(agents, keys, tasks, given)


@partial(jax.jit, static_argnums=(0, 1))
def _propose(
    adapter: Adapter,
    is_last: bool,
    agents: PyTree,
    state: PyTree,
    tasks: Places,
    keys: Key,
    index: Array,
) -> tuple[Hypotheses, Key]:
    """Hypotheses and keys of the next episode, [seeds, tasks, ...]."""
    choose = adapter.commit if is_last else adapter.propose

    def one_seed(agent: PyTree, state: PyTree, key: Key) -> tuple[Hypotheses, Key]:
        task_keys = jax.random.split(jax.random.fold_in(key, 1 + index), tasks.shape[1])
        return jax.vmap(choose, in_axes=(None, 0))(agent, state), task_keys

    return jax.vmap(one_seed)(agents, state, keys)


@partial(jax.jit, static_argnums=0)
def _observe(
    adapter: Adapter, agents: PyTree, state: PyTree, hypothesis: Hypotheses, episode: Episodes
) -> PyTree:
    over_tasks = jax.vmap(adapter.observe, in_axes=(None, 0, 0, 0))
    return jax.vmap(over_tasks)(agents, state, hypothesis, episode)
