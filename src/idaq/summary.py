"""`summary.json`: one row per adaptation method, computed from the raw results."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from idaq.adapt import DEFAULT_METHODS
from idaq.atomic import write_json
from idaq.bench.statistics import (
    bootstrap_interval,
    capped_score,
    normalised_score,
    per_seed_mean,
)
from idaq.data.describe import successful_return
from idaq.errors import IdaqError
from idaq.run_dir import RunDir, read_json

_REMEDY = "Remove it and adapt again with --resume."
RawResults = dict[str, NDArray[Any]]


def load_results(run: RunDir, name: str, seed: int) -> RawResults:
    """The raw arrays of one seed, [tasks, ...]."""
    file = run.result_file(name, seed)
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            results = dict(arrays)
    except Exception as error:  # whatever a damaged file makes of numpy's reader
        raise IdaqError(f"'{file}' cannot be read ({error}).", _REMEDY) from error
    returns = results.get("returns")
    if returns is None or returns.ndim != 2 or not np.isfinite(returns).all():
        raise IdaqError(f"'{file}' has no finite returns per task and episode.", _REMEDY)
    return results


def summarise(run: RunDir) -> dict[str, Any]:
    """Compute the summary of all results that there are, write it, and return it."""
    identity = run.manifest()["identity"]
    seeds = run.seeds()
    rows = []
    for name in sorted(run.adapt_names(), key=method_order):
        done = [seed for seed in seeds if run.result_file(name, seed).is_file()]
        if done == seeds and seeds:
            rows.append(_row(run, identity["algo"], name, seeds))
    data = read_json(run.dataset_file) if run.dataset_file.is_file() else {}
    summary = {
        "family": identity["family"],
        "quality": data.get("quality") or "expert",
        "preset": identity["preset"],
        "split": identity["split"],
        "seeds": seeds,
        "rows": rows,
    }
    write_json(run.summary_file, summary)
    return summary


def method_order(name: str) -> tuple[int, str]:
    """The paper's methods first, in its order; then the others by name."""
    known = DEFAULT_METHODS.index(name) if name in DEFAULT_METHODS else len(DEFAULT_METHODS)
    return known, name


def _row(run: RunDir, algo: str, name: str, seeds: list[int]) -> dict[str, Any]:
    results = [load_results(run, name, seed) for seed in seeds]
    if len({r["returns"].shape for r in results}) > 1:
        raise IdaqError(
            f"The results in '{run.adapt(name)}' differ in shape between seeds.",
            "Remove them and adapt again with --resume.",
        )
    final = np.stack([r["returns"][:, -1] for r in results])  # [seeds, tasks]
    row: dict[str, Any] = {"algo": algo, "method": name}
    row |= _mean_and_interval("mean", "ci95", per_seed_mean(final))
    row |= {"success": None, "episodes": int(results[0]["returns"].shape[1])}
    row |= {"tasks": int(final.shape[1])}
    if all("success" in r for r in results):
        success = np.stack([r["success"][:, -1] for r in results])
        row |= _mean_and_interval("success", "success_ci95", per_seed_mean(success))
        row |= _scores(run, final, [r["tasks"].tolist() for r in results])
    return row


def _scores(run: RunDir, final: NDArray[Any], tasks: list[list[int]]) -> dict[str, Any]:
    """Returns over the expert's, where the data has successes to measure by.

    `score`: over the mean return of the successful logged episodes of the same tasks;
    `score_capped`: the same, at most 1 per seed; `score_dataset`: over the dataset's mean return.
    """
    if not run.dataset_file.is_file():
        return {}
    data = read_json(run.dataset_file)
    expert = [successful_return(data, each) for each in tasks]
    row: dict[str, Any] = {}
    if all(value is not None for value in expert):
        pairs = [(returns[None], value) for returns, value in zip(final, expert, strict=True)]
        score = np.concatenate([normalised_score(r, v) for r, v in pairs if v is not None])
        capped = np.concatenate([capped_score(r, v) for r, v in pairs if v is not None])
        row |= _mean_and_interval("score", "score_ci95", score)
        row |= _mean_and_interval("score_capped", "score_capped_ci95", capped)
    relative = normalised_score(final, data["mean_return"])
    return row | _mean_and_interval("score_dataset", "score_dataset_ci95", relative)


def _mean_and_interval(mean: str, interval: str, per_seed: NDArray[Any]) -> dict[str, Any]:
    return {mean: float(per_seed.mean()), interval: list(bootstrap_interval(per_seed))}
