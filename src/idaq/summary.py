"""`summary.json`: one row per adaptation method, computed from the raw results."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from idaq.adapt import DEFAULT_METHODS
from idaq.atomic import write_json
from idaq.bench.statistics import bootstrap_interval, per_seed_mean
from idaq.errors import IdaqError
from idaq.run_dir import RunDir

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
    summary = {
        "family": identity["family"],
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
    returns = np.stack([r["returns"] for r in results])  # [seeds, tasks, episodes]
    means = per_seed_mean(returns[..., -1])
    low, high = bootstrap_interval(means)
    success = None
    if all("success" in r for r in results):
        success = float(np.mean([r["success"][:, -1].mean() for r in results]))
    return {
        "algo": algo,
        "method": name,
        "mean": float(means.mean()),
        "ci95": [low, high],
        "success": success,
        "episodes": int(returns.shape[2]),
        "tasks": int(returns.shape[1]),
    }
