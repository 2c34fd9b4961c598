"""From a dataset on disk to training data on the device."""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from idaq.algos.data import EpisodeIndex, Normaliser, scale_action
from idaq.storage.dataset import Dataset
from idaq.types import IntArray, Places, Scalar, Spec, Transition, Vector

LARGEST = np.finfo(np.float32).max
REWARD_STD_FLOOR = 1e-3  # rewards that hardly vary keep their scale


def load_rows(dataset: Dataset, spec: Spec) -> tuple[Transition, Places, Places]:
    """All rows on the default device, and each task's first row and count."""
    arrays = dataset.arrays
    starts, counts = dataset.task_rows()
    rows = Transition(
        obs=jnp.asarray(arrays["observations"]),
        action=scale_action(spec, jnp.asarray(arrays["actions"])),
        reward=jnp.asarray(arrays["rewards"]),
        next_obs=jnp.asarray(arrays["next_observations"]),
        terminated=jnp.asarray(arrays["terminated"], jnp.float32),
    )
    return rows, jnp.asarray(starts, jnp.int32), jnp.asarray(counts, jnp.int32)


def load_episodes(dataset: Dataset) -> EpisodeIndex:
    """Where every episode is."""
    offsets, task = dataset.arrays["episode_offsets"], dataset.arrays["episode_task"]
    first = np.searchsorted(task, np.arange(dataset.num_tasks), side="left")
    last = np.searchsorted(task, np.arange(dataset.num_tasks), side="right")
    places = (offsets[:-1], np.diff(offsets), first, last - first)
    return EpisodeIndex(*(jnp.asarray(place, jnp.int32) for place in places))


def returns_to_go(dataset: Dataset, discount: float) -> Vector:
    """The discounted sum of the rewards from every row to the end of its episode, [rows]."""
    offsets = np.asarray(dataset.arrays["episode_offsets"])
    result = np.asarray(dataset.arrays["rewards"], np.float64).copy()
    lengths = np.diff(offsets)
    for place in range(int(lengths.max()) - 2, -1, -1):
        rows = offsets[:-1][lengths > place + 1] + place
        result[rows] += discount * result[rows + 1]
    return _device(result)


def fit_normaliser(dataset: Dataset, train_tasks: IntArray, std_floor: float) -> Normaliser:
    """Mean and standard deviation over the training tasks' rows, in float64.

    A dimension that hardly varies keeps its scale: the deviation is at least `std_floor`.
    """
    starts, counts = dataset.task_rows()
    rows = np.concatenate([np.arange(starts[t], starts[t] + counts[t]) for t in train_tasks])
    obs = np.asarray(dataset.arrays["observations"][rows], np.float64)
    reward = np.asarray(dataset.arrays["rewards"][rows], np.float64)
    return Normaliser(
        obs_mean=_device(obs.mean(axis=0)),
        obs_std=_device(np.maximum(obs.std(axis=0), std_floor)),
        reward_mean=_device(reward.mean()),
        reward_std=_device(np.maximum(reward.std(), REWARD_STD_FLOOR)),
        seen=jnp.ones(obs.shape[1]),
    )


def mean_return(dataset: Dataset, train_tasks: IntArray) -> Scalar:
    """The mean return of the training tasks' episodes."""
    is_train = np.isin(dataset.arrays["episode_task"], train_tasks)
    mean = dataset.episode_returns()[is_train].mean()
    return _device(np.clip(mean, -LARGEST, LARGEST))


def _device(value: NDArray[np.float64] | np.float64) -> jax.Array:
    return jnp.asarray(np.asarray(value, np.float32))
