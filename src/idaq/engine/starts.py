"""What an agent can see of its task at the first step, and whether it is worth looking at.

Where tasks visibly differ at the start (an object lies elsewhere), the difference tells the
training tasks apart better than anything else, and networks memorise it. Where it also decides what
to do, they should look at it. Where it does not (an object lies about while the arm is to reach a
point in the air), they look the task up by it and fail on a new one. The logs say which it is:
across tasks, what is visible at the start either predicts how the experts move or it does not.
"""

import numpy as np
from numpy.typing import NDArray

from idaq.storage.dataset import Dataset
from idaq.types import IntArray

Floats = NDArray[np.float64]

NUM_MOMENTS = 25  # of an episode, at which behaviour is compared
STILL = 0.1  # what moves less than this share of its spread between tasks counts as still
FORETOLD = 0.1  # the least share of variance explained that counts
RIDGE = 2.0  # weight of the penalty, in tasks
MIN_SPREAD = 1e-3  # in the data's units; smaller differences count as none


def start_std(dataset: Dataset, train_tasks: IntArray) -> Floats:
    """How much the first observations of the training tasks' episodes vary, [obs_dim]."""
    first = _moments(dataset, train_tasks, np.zeros(1))[1][:, 0]
    return np.asarray(first.std(axis=0))


def unrelated_starts(dataset: Dataset, train_tasks: IntArray) -> NDArray[np.bool_]:
    """Which observations differ between tasks and say nothing about how to solve them, [obs_dim].

    Such an observation (1) differs from task to task at the first step, (2) does not change during
    an episode, and (3) belongs to a set that does not predict the experts' movements: when the
    paths of the other observations are regressed linearly on the set, and each task is predicted
    from the others, it explains less than a tenth of the variance between tasks at every moment.
    """
    task, path = _moments(dataset, train_tasks, np.linspace(0.0, 1.0, NUM_MOMENTS))
    start, moved = path[:, 0], path - path[:, :1]
    by_task = [task == each for each in np.unique(task)]
    mean_start = np.stack([start[own].mean(axis=0) for own in by_task])
    spread = mean_start.std(axis=0)
    within = np.sqrt(np.mean([start[own].var(axis=0) for own in by_task], axis=0))
    differs = (spread > MIN_SPREAD) & (spread > within)
    stays = np.sqrt((moved**2).mean(axis=(0, 1))) < STILL * spread
    if not (differs & stays).any() or len(by_task) < 3:
        return np.zeros(spread.shape, bool)
    mean_moved = np.stack([moved[own].mean(axis=0) for own in by_task])[..., ~differs]
    moves = (mean_moved**2).mean(axis=(0, 2)) > MIN_SPREAD**2
    seen = _principal_components(mean_start[:, differs] / spread[differs])
    foretold = [_explained(seen, mean_moved[:, moment]) for moment in np.flatnonzero(moves)]
    if not foretold or max(foretold) > FORETOLD:
        return np.zeros(spread.shape, bool)
    return np.asarray(differs & stays)


def _moments(dataset: Dataset, train_tasks: IntArray, moments: Floats) -> tuple[IntArray, Floats]:
    """The task of each training episode, and its observations at given shares of its length."""
    arrays = dataset.arrays
    offsets = np.asarray(arrays["episode_offsets"])
    own = np.flatnonzero(np.isin(arrays["episode_task"], train_tasks))
    last = offsets[own + 1] - offsets[own] - 1
    rows = offsets[own][:, None] + np.floor(last[:, None] * moments).astype(np.int64)
    path = np.asarray(arrays["observations"][rows], np.float64)
    return np.asarray(arrays["episode_task"][own]), path


def _principal_components(features: Floats) -> Floats:
    """Uncorrelated features of unit size, without the directions of little variance."""
    centred = features - features.mean(axis=0)
    left, size, _ = np.linalg.svd(centred, full_matrices=False)
    important = size**2 > 0.02 * (size**2).sum()
    return np.asarray(left[:, important] * np.sqrt(len(features)))


def _explained(features: Floats, values: Floats) -> float:
    """The share of the variance between tasks that features explain, each task left out in turn."""
    num = len(features)
    design = np.column_stack([np.ones(num), features])
    penalty = np.diag([0.0, *[RIDGE] * features.shape[1]])
    hat: Floats = design @ np.linalg.solve(design.T @ design + penalty, design.T)
    error = (values - hat @ values) / (1.0 - np.diag(hat))[:, None]
    baseline = (values - values.mean(axis=0)) * num / (num - 1)
    return float(1.0 - (error**2).sum() / (baseline**2).sum())
