"""Whole episodes of a dataset, padded to the horizon."""

import jax
import numpy as np

from idaq.envs.family import TaskFamily
from idaq.errors import IdaqError
from idaq.storage.dataset import Dataset
from idaq.types import AnyArray, Episodes, IntArray


def expert_episodes(
    dataset: Dataset, family: TaskFamily, tasks: IntArray, seed: int, num: int
) -> Episodes:
    """`num` whole episodes of each task, fixed by the seed, [tasks, num, horizon, ...]."""
    horizon = family.spec.horizon
    per_task = []
    for task in tasks:
        available = dataset.task_episodes(int(task))
        if num > len(available):
            raise IdaqError(
                f"Task {task} has {len(available)} episodes and {num} are asked for.",
                "Ask for fewer expert episodes.",
            )
        rng = np.random.default_rng([seed, int(task)])
        chosen = rng.choice(available, size=num, replace=False)
        per_task.append([_pad(dataset.episode(int(i)), horizon) for i in chosen])
    stacked = [jax.tree.map(lambda *x: np.stack(x), *episodes) for episodes in per_task]
    return Episodes(*jax.tree.map(lambda *x: np.stack(x), *stacked))


def _pad(rows: dict[str, AnyArray], horizon: int) -> Episodes:
    length = min(len(rows["rewards"]), horizon)

    def pad(x: AnyArray) -> AnyArray:
        return np.concatenate([x[:length], np.zeros((horizon - length, *x.shape[1:]), x.dtype)])

    success = rows.get("success", np.zeros(length, bool))
    return Episodes(
        obs=pad(rows["observations"]),
        action=pad(rows["actions"]),
        reward=pad(rows["rewards"]),
        next_obs=pad(rows["next_observations"]),
        terminated=pad(rows["terminated"]),
        success=pad(success),
        valid=np.arange(horizon) < length,
    )
