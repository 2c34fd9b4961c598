"""What an agent remembers of the logs, and what they say of an episode that was not logged.

An agent's own episodes soon leave the states that a task's logs cover, and there the logs say
nothing. Where they overlap, as at the beginning of an episode, they say which tasks the experience
speaks against: those whose logs had another outcome in the same place.
"""

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from idaq.algos.data import (
    Normaliser,
    TrainData,
    hide,
    identity_normaliser,
    normalise_rows,
    rows_at,
    scale_action,
)
from idaq.types import Episodes, Mask, Places, Scalar, Spec, Transition, Vector

MAX_STEPS = 128  # of an episode that are compared with the logs, evenly over its length
WIDTH = 0.4  # of the surroundings of a state and action, in standard deviations of the logs
TOLERANCE = 0.1  # in standard deviations: outcomes that differ by more count as just different


class Remembers(Protocol):
    """What a configuration says of the logs that are remembered."""

    @property
    def logged_rows(self) -> int:
        """Of every training task; 0: nothing is remembered."""
        ...

    @property
    def next_obs(self) -> bool:
        """Whether tasks differ in what actions do, and not in rewards alone."""
        ...

    @property
    def hide_unrelated(self) -> bool: ...


class Logs(NamedTuple):
    """Some logged transitions of every training task, in standard units."""

    units: Normaliser
    inputs: jax.Array  # [num_tasks, num_rows, obs_dim + action_dim]
    outcomes: jax.Array  # [num_tasks, num_rows, 1]: rewards; [..., 1 + obs_dim]: and their effects
    exists: Mask  # [num_tasks, num_rows]: a task may have fewer rows than others
    returns: Vector  # [num_tasks], mean of each task's episodes


class Comparison(NamedTuple):
    """What a task's logs say of the steps of an episode."""

    closeness: jax.Array  # [num_steps, num_tasks], 1: the logs have been there; 0: far from there
    error: jax.Array  # [num_steps, num_tasks], 0: with the same outcome; 1: with another
    is_step: Mask  # [num_steps]: the others are after the end of the episode


def no_logs(config: Remembers, spec: Spec, num_tasks: int) -> Logs | None:
    """Logs of zeros, for their shapes."""
    num_rows = config.logged_rows
    if not num_rows:
        return None
    outcome_dim = 1 + config.next_obs * spec.obs_dim
    return Logs(
        units=identity_normaliser(spec.obs_dim),
        inputs=jnp.zeros((num_tasks, num_rows, spec.obs_dim + spec.action_dim)),
        outcomes=jnp.zeros((num_tasks, num_rows, outcome_dim)),
        exists=jnp.zeros((num_tasks, num_rows), bool),
        returns=jnp.zeros(num_tasks),
    )


def remember(config: Remembers, data: TrainData) -> Logs | None:
    """Transitions of each training task, evenly over its logs."""
    num_rows = config.logged_rows
    if not num_rows:
        return None
    units = hide(data.normaliser, data.unrelated) if config.hide_unrelated else data.normaliser
    longest = int(data.task_count[data.train_tasks].max())

    def of_task(task: Places) -> tuple[jax.Array, jax.Array, Mask, Scalar]:
        count, start = data.task_count[task], data.task_start[task]
        step = jnp.maximum(count / num_rows, 1.0)
        places = (jnp.arange(num_rows) * step).astype(jnp.int32)
        rows = rows_at(data, start + jnp.minimum(places, count - 1))
        inputs, outcomes = _in_units(units, rows, config.next_obs)
        everywhere = jnp.arange(longest)
        rewards = data.rows.reward[start + jnp.minimum(everywhere, count - 1)]
        total = jnp.where(everywhere < count, rewards, 0.0).sum()
        return inputs, outcomes, places < count, total / data.episodes.task_count[task]

    return Logs(units, *jax.lax.map(of_task, data.train_tasks))


def compare(logs: Logs, spec: Spec, episode: Episodes, task: Places | None = None) -> Comparison:
    """What every training task's logs, or one task's, say of an episode [horizon, ...].

    Each step is compared with the logged transition whose state and action are nearest to its own.
    Steps after the end of the episode are close to nothing.
    """
    inputs, outcomes, exists = logs.inputs, logs.outcomes, logs.exists
    if task is not None:
        inputs, outcomes, exists = inputs[task][None], outcomes[task][None], exists[task][None]
    steps = jnp.linspace(0, spec.horizon - 1, min(spec.horizon, MAX_STEPS)).astype(jnp.int32)
    seen = Episodes(*(jnp.asarray(field)[steps] for field in episode))
    is_step = jnp.asarray(seen.valid)
    rows = Transition(
        obs=jnp.asarray(seen.obs),
        action=scale_action(spec, seen.action),
        reward=jnp.asarray(seen.reward),
        next_obs=jnp.asarray(seen.next_obs),
        terminated=jnp.asarray(seen.terminated),
    )
    sees_effects = outcomes.shape[-1] > 1
    own_inputs, own_outcomes = _in_units(logs.units, rows, sees_effects)
    squared, theirs = jax.lax.map(
        lambda task: _nearest(own_inputs, *task), (inputs, outcomes, exists)
    )
    difference = jnp.abs(theirs - own_outcomes).max(-1).T
    closeness = jnp.exp(-0.5 * squared.T / WIDTH**2) * is_step[:, None]
    return Comparison(closeness, jnp.minimum(difference / TOLERANCE, 1.0), is_step)


def contradiction(logs: Logs, spec: Spec, episode: Episodes) -> Vector:
    """How many steps of an episode speak against each training task, more than against others.

    [num_tasks]; negative where they speak for it. What is far from all logs speaks for nothing.
    """
    closeness, error, _ = compare(logs, spec, episode)
    usual = (closeness * error).sum(-1) / jnp.maximum(closeness.sum(-1), 1e-9)
    against: Vector = (closeness * (error - usual[:, None])).sum(0)
    return against


def _nearest(
    points: jax.Array, inputs: jax.Array, outcomes: jax.Array, exists: Mask
) -> tuple[Vector, jax.Array]:
    """For each point, its squared distance to the nearest of one task's rows, and its outcome.

    |a - b|^2 = |a|^2 + (|b|^2 - 2 a b), of which a product of matrices gives what depends on b. One
    task at a time stays in the cache, and looking for the minimum's place after its value is five
    times as fast on a CPU as `argmin`.
    """
    squares = jnp.where(exists, (inputs**2).sum(-1), jnp.inf)
    rows = jnp.concatenate([-2.0 * inputs, squares[:, None]], axis=-1)
    with_one = jnp.concatenate([points, jnp.ones((len(points), 1))], axis=-1)
    beyond = with_one @ rows.T
    least = beyond.min(-1)
    place = jnp.argmax(beyond == least[:, None], axis=-1)
    return jnp.maximum((points**2).sum(-1) + least, 0.0), outcomes[place]


def _in_units(
    units: Normaliser, rows: Transition, sees_effects: bool
) -> tuple[jax.Array, jax.Array]:
    """States with actions, and outcomes, in standard units; actions are in [-1, 1] already."""
    rows = normalise_rows(units, rows)
    outcome = rows.reward[..., None]
    if sees_effects:
        outcome = jnp.concatenate([outcome, rows.next_obs - rows.obs], axis=-1)
    return jnp.concatenate([rows.obs, rows.action], axis=-1), outcome
