"""Training data on the device, and how meta-batches are drawn from it.

Only the rows of the training tasks are ever indexed.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from idaq.types import Array, Spec, Transition


class Normaliser(NamedTuple):
    """Affine maps to about zero mean and unit size; what is hidden is zero."""

    obs_mean: Any  # [obs_dim]
    obs_std: Any  # [obs_dim]
    reward_mean: Any  # []
    reward_std: Any  # []
    seen: Any  # [obs_dim], 1, or 0 for what is hidden

    def obs(self, obs: Array) -> Any:
        return (obs - self.obs_mean) / self.obs_std * self.seen

    def reward(self, reward: Array) -> Any:
        return (reward - self.reward_mean) / self.reward_std


class TrainData(NamedTuple):
    """One seed's view of a dataset. Rows are shared between seeds, tasks are not."""

    rows: Transition  # [num_transitions, ...]; actions are scaled to [-1, 1]
    task_start: Any  # [num_tasks], first row
    task_count: Any  # [num_tasks], number of rows
    train_tasks: Any  # [num_train_tasks]
    normaliser: Normaliser
    start_std: Any  # [obs_dim], of the training tasks' first observations, in the data's units
    unrelated: Any  # [obs_dim] bool, differs between tasks and does not matter (data/starts.py)
    mean_return: Any  # [], of the training tasks' episodes


def scale_action(spec: Spec, action: Array) -> Any:
    """From the environment's units to [-1, 1]."""
    low, high = jnp.asarray(spec.action_low), jnp.asarray(spec.action_high)
    return jnp.clip(2.0 * (action - low) / (high - low) - 1.0, -1.0, 1.0)


def unscale_action(spec: Spec, action: Array) -> Any:
    """From [-1, 1] to the environment's units."""
    low, high = jnp.asarray(spec.action_low), jnp.asarray(spec.action_high)
    return low + 0.5 * (action + 1.0) * (high - low)


def identity_normaliser(obs_dim: int) -> Normaliser:
    """Leaves everything as it is."""
    zeros, ones = jnp.zeros(obs_dim), jnp.ones(obs_dim)
    return Normaliser(zeros, ones, jnp.zeros(()), jnp.ones(()), seen=ones)


def hide(normaliser: Normaliser, hidden: Array) -> Normaliser:
    """The same, with the hidden observations [obs_dim] out of sight."""
    return normaliser._replace(seen=jnp.where(hidden, 0.0, normaliser.seen))


def sample_tasks(data: TrainData, num: int, key: Array) -> Any:
    """Training tasks, with replacement: pairs of one task are what pulls embeddings together."""
    return data.train_tasks[jax.random.randint(key, (num,), 0, data.train_tasks.shape[0])]


def sample_rows(data: TrainData, tasks: Array, num: int, key: Array) -> Transition:
    """`num` random transitions of each task, [num_tasks, num, ...]."""
    offset = jax.random.randint(key, (tasks.shape[0], num), 0, data.task_count[tasks][:, None])
    index = data.task_start[tasks][:, None] + offset
    return Transition(*(field[index] for field in data.rows))
