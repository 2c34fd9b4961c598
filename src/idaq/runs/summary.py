"""`summary.json`: one row per adaptation method, computed from the raw results."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from idaq.adapt import DEFAULT_METHODS
from idaq.errors import IdaqError
from idaq.runs.directory import RunDir
from idaq.runs.results import load_results
from idaq.runs.run import Run, RunPlace
from idaq.runs.statistics import bootstrap_interval, capped_score, normalised_score, per_seed_mean
from idaq.storage.atomic import write_json
from idaq.storage.checked import read_object
from idaq.storage.describe import successful_return


def summarise(run: RunPlace) -> dict[str, Any]:
    """Compute the summary of all results that there are, write it, and return it."""
    run = Run.open(run)
    summary = summary_of(run)
    write_json(run.directory.summary_file, summary)
    return summary


def summary_of(run: Run) -> dict[str, Any]:
    """The summary of all results that there are."""
    identity, seeds = run.identity, run.seeds()
    return {
        "family": identity.family,
        "quality": data_quality(run.directory),
        "preset": identity.preset,
        "split": identity.split,
        "seeds": seeds,
        "rows": [_row(run, name, seeds) for name in complete_names(run.directory, seeds)],
    }


def complete_names(run: RunDir, seeds: list[int]) -> list[str]:
    """The adaptations that have results of all seeds, in the order in which tables list them."""
    if not seeds:
        return []
    is_complete = {
        name: all(run.result_file(name, seed).is_file() for seed in seeds)
        for name in run.adapt_names()
    }
    return sorted((name for name in is_complete if is_complete[name]), key=method_order)


def data_quality(run: RunDir) -> str:
    """The quality of the data that a run was trained on."""
    data = read_object(run.dataset_file) if run.dataset_file.is_file() else {}
    return str(data.get("quality") or "expert")


def subject_of(family: str, quality: str, algo: str) -> str:
    """What a run is about, in words; expert data and FOCAL go without saying."""
    data = [] if quality == "expert" else [f"{quality} data"]
    return ", ".join([family, *data, *([] if algo == "focal" else [algo])])


def method_order(name: str) -> tuple[int, str]:
    """The paper's methods first, in its order; then the others by name."""
    known = DEFAULT_METHODS.index(name) if name in DEFAULT_METHODS else len(DEFAULT_METHODS)
    return known, name


def _row(run: Run, name: str, seeds: list[int]) -> dict[str, Any]:
    values = seed_values(run.directory, name, seeds)
    shape = load_results(run, name, seeds[0])["returns"].shape
    row: dict[str, Any] = {"algo": run.identity.algo, "method": name}
    row |= _mean_and_interval("mean", "ci95", values.pop("mean"))
    row |= {"success": None, "episodes": int(shape[1]), "tasks": int(shape[0])}
    for what, per_seed in values.items():
        row |= _mean_and_interval(what, f"{what}_ci95", per_seed)
    return row


def seed_values(run: RunDir, name: str, seeds: list[int]) -> dict[str, NDArray[np.float64]]:
    """What a method's final episode brought every seed, averaged over tasks; each [seeds].

    `mean` is the return and, where the family has success, `success` and the scores are there:
    `score` is the return over that of the successful logged episodes of the same tasks (where
    there are any), `score_capped` the same and at most 1, `score_dataset` over the dataset's mean.
    There are no scores relative to a return that is not positive.
    """
    results = [load_results(run, name, seed) for seed in seeds]
    if len({r["returns"].shape for r in results}) > 1:
        raise IdaqError(
            f"The results in '{run.adapt(name)}' differ in shape between seeds.",
            "Remove them and adapt again with --resume.",
        )
    final = np.stack([r["returns"][:, -1] for r in results])  # [seeds, tasks]
    values = {"mean": per_seed_mean(final)}
    if all("success" in r for r in results):
        success = np.stack([r["success"][:, -1] for r in results])
        values["success"] = per_seed_mean(success)
        values |= _scores(run, final, [r["tasks"].tolist() for r in results])
    return values


def _scores(
    run: RunDir, final: NDArray[Any], tasks: list[list[int]]
) -> dict[str, NDArray[np.float64]]:
    if not run.dataset_file.is_file():
        return {}
    data = read_object(run.dataset_file)
    expert = [successful_return(data, each) or 0.0 for each in tasks]
    values: dict[str, NDArray[np.float64]] = {}
    if all(reference > 0.0 for reference in expert):
        pairs = [(returns[None], value) for returns, value in zip(final, expert, strict=True)]
        values["score"] = np.concatenate([normalised_score(r, v) for r, v in pairs])
        values["score_capped"] = np.concatenate([capped_score(r, v) for r, v in pairs])
    if data["mean_return"] > 0.0:
        values["score_dataset"] = normalised_score(final, data["mean_return"])
    return values


def _mean_and_interval(mean: str, interval: str, per_seed: NDArray[Any]) -> dict[str, Any]:
    return {mean: float(per_seed.mean()), interval: list(bootstrap_interval(per_seed))}
