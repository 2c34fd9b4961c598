"""The returns in a dataset, task by task: what an agent's returns are compared with."""

from pathlib import Path

import numpy as np

from idaq.config import Json
from idaq.errors import IdaqError
from idaq.storage.checked import REMEDY, SUCCESSES, is_number, is_text, or_none, read_object
from idaq.storage.dataset import Dataset


def describe(dataset: Dataset) -> Json:
    """Per task: number and mean return of episodes and, if success is recorded, of successes.

    Successes of a scripted expert, if the metadata has them, take the place of logged ones.
    """
    task, returns = dataset.arrays["episode_task"], dataset.episode_returns()
    success = dataset.episode_success()
    num_episodes = np.bincount(task, minlength=dataset.num_tasks)
    total = np.bincount(task, weights=returns, minlength=dataset.num_tasks)
    description: Json = {
        "quality": dataset.metadata.get("quality"),
        "mean_return": float(returns.mean()),
        "episodes": num_episodes.tolist(),
        "returns": (total / num_episodes).tolist(),
    }
    if success is not None:
        num = np.bincount(task[success], minlength=dataset.num_tasks)
        total = np.bincount(task[success], weights=returns[success], minlength=dataset.num_tasks)
        description["success"] = float(success.mean())
        description["successes"] = num.tolist()
        description["successful_returns"] = (total / np.maximum(num, 1)).tolist()
    expert = dataset.metadata.get("expert")
    if isinstance(expert, dict):  # others logged the data, and scores are relative to the expert
        description |= expert
    return description


def read_description(file: Path) -> Json:
    """What `describe` returned, from the file that holds it."""
    description = read_object(
        file,
        REMEDY,
        quality=or_none(is_text),
        mean_return=or_none(is_number),
        **SUCCESSES,
    )
    num, returns = (description.get(name) for name in ("successes", "successful_returns"))
    if len(num or ()) != len(returns or ()):
        raise IdaqError(f"'{file}' has successes without returns, or returns without.", REMEDY)
    return description


def successful_return(description: Json, tasks: list[int]) -> float | None:
    """The mean return of the successful episodes of some tasks; None where there are none."""
    if description.get("successes") is None:
        return None
    if max(tasks, default=0) >= len(description["successes"]):
        raise IdaqError(
            f"The results are of task {max(tasks)}, and the data is described for "
            f"{len(description['successes'])} tasks.",
            "Restore the results or dataset.json from a copy.",
        )
    num = np.asarray(description["successes"], np.float64)[tasks]
    returns = np.asarray(description["successful_returns"], np.float64)[tasks]
    return float((num * returns).sum() / num.sum()) if num.sum() > 0 else None
