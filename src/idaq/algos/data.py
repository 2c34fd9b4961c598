"""Training data on the device, and how meta-batches are drawn from it.

Only the rows of the training tasks are ever indexed.
"""

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from idaq.types import (
    Action,
    Array,
    Episodes,
    Key,
    Mask,
    Places,
    RewardFunction,
    Scalar,
    Spec,
    Transition,
    Vector,
)


class Normaliser(NamedTuple):
    """Affine maps to about zero mean and unit size; what is hidden is zero."""

    obs_mean: Vector  # [obs_dim]
    obs_std: Vector  # [obs_dim]
    reward_mean: Scalar  # []
    reward_std: Scalar  # []
    seen: Vector  # [obs_dim], 1, or 0 for what is hidden

    def obs(self, obs: Array) -> jax.Array:
        return (jnp.asarray(obs) - self.obs_mean) / self.obs_std * self.seen

    def reward(self, reward: Array) -> jax.Array:
        return (jnp.asarray(reward) - self.reward_mean) / self.reward_std


class Normalises(Protocol):
    """What a configuration says of a normaliser."""

    @property
    def normalise(self) -> bool: ...

    @property
    def hide_unrelated(self) -> bool: ...


class EpisodeIndex(NamedTuple):
    """Where the rows of every episode are; episodes are sorted by task, as rows are."""

    start: Places  # [num_episodes], first row
    length: Places  # [num_episodes], number of rows
    task_start: Places  # [num_tasks], first episode
    task_count: Places  # [num_tasks], number of episodes


class SharedData(NamedTuple):
    """What all seeds have in common."""

    rows: Transition  # [num_transitions, ...]; actions are scaled to [-1, 1]
    task_start: Places  # [num_tasks], first row
    task_count: Places  # [num_tasks], number of rows
    episodes: EpisodeIndex
    return_to_go: Vector | None = None  # [num_transitions], if Monte-Carlo returns are needed
    reward_of: RewardFunction | None = None  # for algorithms that relabel


class SeedData(NamedTuple):
    """What one seed has for itself: its training tasks, and what is known of them."""

    train_tasks: Places  # [num_train_tasks]
    normaliser: Normaliser
    start_std: Vector  # [obs_dim], of the training tasks' first observations, in the data's units
    unrelated: Mask  # [obs_dim] bool, differs between tasks and does not matter (engine/starts.py)
    mean_return: Scalar  # [], of the training tasks' episodes


class TrainData(NamedTuple):
    """A dataset as one seed sees it; in a group of seeds, `seed` has a leading axis."""

    shared: SharedData
    seed: SeedData

    def replaced(self, **changes: Any) -> "TrainData":
        """A copy with new values for some fields, of either part."""
        own = {name: value for name, value in changes.items() if name in SeedData._fields}
        common = {name: value for name, value in changes.items() if name not in own}
        return TrainData(self.shared._replace(**common), self.seed._replace(**own))

    @property
    def rows(self) -> Transition:
        return self.shared.rows

    @property
    def task_start(self) -> Places:
        return self.shared.task_start

    @property
    def task_count(self) -> Places:
        return self.shared.task_count

    @property
    def episodes(self) -> EpisodeIndex:
        return self.shared.episodes

    @property
    def return_to_go(self) -> Vector | None:
        return self.shared.return_to_go

    @property
    def reward_of(self) -> RewardFunction | None:
        return self.shared.reward_of

    @property
    def train_tasks(self) -> Places:
        return self.seed.train_tasks

    @property
    def normaliser(self) -> Normaliser:
        return self.seed.normaliser

    @property
    def start_std(self) -> Vector:
        return self.seed.start_std

    @property
    def unrelated(self) -> Mask:
        return self.seed.unrelated

    @property
    def mean_return(self) -> Scalar:
        return self.seed.mean_return


def scale_action(spec: Spec, action: Array) -> Action:
    """From the environment's units to [-1, 1]."""
    low, high = jnp.asarray(spec.action_low), jnp.asarray(spec.action_high)
    return jnp.clip(2.0 * (action - low) / (high - low) - 1.0, -1.0, 1.0)


def unscale_action(spec: Spec, action: Array) -> Action:
    """From [-1, 1] to the environment's units."""
    low, high = jnp.asarray(spec.action_low), jnp.asarray(spec.action_high)
    return low + 0.5 * (action + 1.0) * (high - low)


def network_rows(spec: Spec, normaliser: Normaliser, episodes: Episodes) -> Transition:
    """The transitions of episodes as networks take them."""
    return Transition(
        obs=normaliser.obs(episodes.obs),
        action=scale_action(spec, episodes.action),
        reward=normaliser.reward(episodes.reward),
        next_obs=normaliser.obs(episodes.next_obs),
        terminated=jnp.asarray(episodes.terminated),
    )


def identity_normaliser(obs_dim: int) -> Normaliser:
    """Leaves everything as it is."""
    zeros, ones = jnp.zeros(obs_dim), jnp.ones(obs_dim)
    return Normaliser(zeros, ones, jnp.zeros(()), jnp.ones(()), seen=ones)


def hide(normaliser: Normaliser, hidden: Mask) -> Normaliser:
    """The same, with the `hidden` observations [obs_dim] set to zero."""
    return normaliser._replace(seen=jnp.where(hidden, 0.0, normaliser.seen))


def choose_normaliser(config: Normalises, data: TrainData) -> Normaliser:
    """The training tasks' normaliser or none, hiding what the configuration asks to hide."""
    identity = identity_normaliser(data.rows.obs.shape[1])
    normaliser = data.normaliser if config.normalise else identity
    return hide(normaliser, data.unrelated) if config.hide_unrelated else normaliser


def sample_tasks(data: TrainData, num: int, key: Key) -> Places:
    """Training tasks, with replacement: pairs of one task are what pulls embeddings together."""
    return data.train_tasks[jax.random.randint(key, (num,), 0, data.train_tasks.shape[0])]


def sample_rows(data: TrainData, tasks: Places, num: int, key: Key) -> Transition:
    """`num` random transitions of each task, [num_tasks, num, ...]."""
    return rows_at(data, random_places(data, tasks, num, key))


def rows_at(data: TrainData, index: Places) -> Transition:
    """The transitions at some places."""
    return Transition(*(field[index] for field in data.rows))


def random_places(data: TrainData, tasks: Places, num: int, key: Key) -> Places:
    """Where `num` random transitions of each task are, [num_tasks, num]."""
    offset = jax.random.randint(key, (tasks.shape[0], num), 0, data.task_count[tasks][:, None])
    return data.task_start[tasks][:, None] + offset


def contiguous_places(data: TrainData, tasks: Places, num: int, key: Key) -> Places:
    """Where `num` consecutive transitions of each task are, [num_tasks, num].

    A task with fewer rows than `num` gives all of them, and starts again after the last.
    """
    count = data.task_count[tasks][:, None]
    first = jax.random.randint(key, count.shape, 0, jnp.maximum(count - num, 0) + 1)
    return data.task_start[tasks][:, None] + (first + jnp.arange(num)) % count


def task_places(data: TrainData, task: Places, num: int) -> tuple[Places, Mask]:
    """Where the first `num` rows of a task are, [num], and which of them exist."""
    place, count = jnp.arange(num), data.task_count[task]
    return data.task_start[task] + jnp.minimum(place, count - 1), place < count


def is_training_row(data: TrainData) -> Mask:
    """Which rows are of training tasks, [num_transitions] bool."""
    first = data.task_start[data.train_tasks]
    edges = jnp.zeros(data.rows.reward.shape[0] + 1, jnp.int32)
    edges = edges.at[first].add(1).at[first + data.task_count[data.train_tasks]].add(-1)
    return jnp.cumsum(edges)[:-1] > 0


def normalise_rows(normaliser: Normaliser, rows: Transition) -> Transition:
    """Observations and rewards in the networks' units."""
    return rows._replace(
        obs=normaliser.obs(rows.obs),
        next_obs=normaliser.obs(rows.next_obs),
        reward=normaliser.reward(rows.reward),
    )


def split_batches(rows: Transition, num_batches: int) -> Transition:
    """[tasks, num_batches * size, ...] to [num_batches, tasks * size, ...]."""

    def split(x: jax.Array) -> jax.Array:
        tasks, rows_per_task = x.shape[:2]
        x = x.reshape(tasks, num_batches, rows_per_task // num_batches, *x.shape[2:])
        return x.swapaxes(0, 1).reshape(num_batches, -1, *x.shape[3:])

    return Transition(*(split(field) for field in rows))


def no_data(spec: Spec, num_train_tasks: int) -> TrainData:
    """Data without contents: what the shapes of a state and of an agent depend on."""
    tasks = jnp.zeros(num_train_tasks, jnp.int32)
    obs, action = jnp.zeros((1, spec.obs_dim)), jnp.zeros((1, spec.action_dim))
    rows = Transition(obs, action, jnp.zeros(1), obs, jnp.zeros(1))
    shared = SharedData(
        rows=rows,
        task_start=tasks,
        task_count=tasks,
        episodes=EpisodeIndex(tasks, tasks, tasks, tasks),
        return_to_go=jnp.zeros(1),
    )
    return TrainData(shared, plain_seed(spec, tasks))


def plain_seed(spec: Spec, train_tasks: Places) -> SeedData:
    """Training tasks of which nothing is known."""
    return SeedData(
        train_tasks=train_tasks,
        normaliser=identity_normaliser(spec.obs_dim),
        start_std=jnp.zeros(spec.obs_dim),
        unrelated=jnp.zeros(spec.obs_dim, bool),
        mean_return=jnp.zeros(()),
    )
