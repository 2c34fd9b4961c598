"""The saved results of a run: raw arrays, and the options of the adaptation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idaq.config import from_dict
from idaq.errors import IdaqError
from idaq.runs.directory import RunDir
from idaq.runs.run import Run, RunPlace
from idaq.settings import AdaptConfig
from idaq.storage.atomic import atomic_file
from idaq.storage.checked import check_axes, is_finite, read_arrays, read_json
from idaq.types import AnyArray

MAX_RETURN = 1e30  # beyond this an agent or an environment has diverged
AXES = {  # tasks, episodes, steps, dimensions
    **dict.fromkeys(("returns", "kept", "uncertainty", "thresholds", "success"), "te"),
    **dict.fromkeys(("anytime_returns", "anytime_success"), "te"),
    **dict.fromkeys(("hypotheses", "anytime_hypotheses"), "te*"),
    **{"tasks": "t", "valid": "tes", "observations": "tepd"},
}
_REMEDY = "Remove it and adapt again with `resume=True`."
RawResults = dict[str, AnyArray]


def load_results(run: RunPlace, name: str, seed: int) -> RawResults:
    """The raw arrays of one seed, [tasks, ...]."""
    directory = run.directory if isinstance(run, Run) else RunDir(run)
    file = directory.result_file(name, seed)
    if not file.exists():
        raise IdaqError(
            f"There are no results '{name}' of seed {seed} in '{directory.path}'.",
            _instead(directory, name),
        )
    results = read_arrays(file, _REMEDY)
    _check_results(results, file)
    return results


def load_seeds(run: RunPlace, name: str, seeds: Sequence[int]) -> list[RawResults]:
    """The raw arrays of some seeds, whose returns have one shape."""
    results = [load_results(run, name, seed) for seed in seeds]
    if len({each["returns"].shape for each in results}) > 1:
        directory = run.directory if isinstance(run, Run) else RunDir(run)
        raise IdaqError(
            f"The results in '{directory.adapt(name)}' differ in shape between seeds.",
            "Remove them and adapt again with `resume=True`.",
        )
    return results


def _check_results(results: RawResults, file: Path) -> None:
    """Refuse what nothing can be computed from."""
    returns = results.get("returns", np.zeros(0))
    if returns.ndim != 2 or not returns.size or not is_finite(returns, MAX_RETURN):
        raise IdaqError(f"'{file}' has no finite returns per task and episode.", _REMEDY)
    check_axes(results, AXES, file, _REMEDY)
    if {"valid", "observations"} <= results.keys():
        num_steps = results["observations"].shape[2] - 1
        if results["valid"].shape[2] != num_steps:
            raise IdaqError(f"'valid' in '{file}' is not of {num_steps} steps.", _REMEDY)
    tasks = results.get("tasks", np.zeros(1, int))
    if tasks.dtype.kind not in "iu" or tasks.min() < 0:
        raise IdaqError(f"'{file}' does not say which tasks it is of.", _REMEDY)


def _instead(directory: RunDir, name: str) -> str:
    """Which results there are: of other seeds, or else under other names."""
    seeds = sorted(file.stem for file in directory.adapt(name).glob("seed-*.npz"))
    there = ", ".join(seeds or directory.adapt_names())
    return f"There are: {there}." if there else "Adapt its agents first."


def anytime_returns(results: RawResults) -> AnyArray | None:
    """The return, had the budget ended after 1, 2, ... episodes, [tasks, N].

    None where that is not known: older results do not say, unless there is but one episode, and
    what would have been committed to may have diverged.
    """
    returns = results["returns"]
    found = results.get("anytime_returns", returns if returns.shape[1] == 1 else None)
    return found if found is not None and is_finite(found, MAX_RETURN) else None


def reference_thresholds(results: RawResults, num_reference: int) -> NDArray[np.float64]:
    """The threshold that the reference stage set, per task.

    It is the largest uncertainty that the stage kept; NaN if it kept none.
    """
    reference = slice(0, num_reference)
    kept = np.where(results["kept"], results["uncertainty"], -np.inf)[:, reference].max(axis=1)
    return np.where(np.isfinite(kept), kept, np.nan)


def thresholds(results: RawResults, config: AdaptConfig) -> NDArray[np.float64]:
    """The threshold that every episode was judged by, [tasks, episodes].

    Older results do not say. For them it is the one that the reference stage set; if only
    improvements were accepted, each of them lowered it for the episodes that followed.
    """
    if "thresholds" in results:
        return results["thresholds"]
    num_reference, repeats = config.num_reference_episodes, config.episodes_per_hypothesis
    uncertainty, kept = results["uncertainty"], results["kept"]
    set_once = reference_thresholds(results, num_reference)
    judged_by = np.repeat(set_once[:, None], uncertainty.shape[1], axis=1)
    if config.accept == "improvement":
        best = np.minimum.accumulate(np.where(kept, uncertainty, np.inf), axis=1)
        for episode in range(num_reference, uncertainty.shape[1]):
            before = (episode - num_reference) // repeats * repeats + num_reference - 1
            judged_by[:, episode] = np.minimum(set_once, best[:, before])
    return judged_by


def save_arrays(file: Path, arrays: dict[str, Any]) -> None:
    """Write raw arrays as one `.npz` file, whole or absent."""
    with atomic_file(file) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, **arrays)


def adaptation_config(run: RunDir, name: str) -> AdaptConfig:
    """The options that the results of that name were adapted with."""
    file = run.adapt_config_file(name)
    saved = read_json(file)
    values = saved.get("config") if isinstance(saved, dict) else None
    return from_dict(AdaptConfig, values, f"'{file}': config")
