"""`summary.json`: one row per adaptation method, computed from the raw results."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from idaq.adapt import DEFAULT_METHODS
from idaq.atomic import write_json
from idaq.bench.statistics import bootstrap_interval, per_seed_mean
from idaq.errors import IdaqError
from idaq.run_dir import RunDir

RawResults = dict[str, NDArray[Any]]


def load_results(run: RunDir, name: str, seed: int) -> RawResults:
    """The raw arrays of one seed, [tasks, ...]."""
    file = run.result_file(name, seed)
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError, EOFError) as error:
        raise IdaqError(
            f"'{file}' cannot be read ({error}).", "Remove it and adapt again with --resume."
        ) from error


def summarise(run: RunDir) -> dict[str, Any]:
    """Compute the summary of all results that there are, write it, and return it."""
    identity = run.manifest()["identity"]
    seeds = [seed for group in run.groups() for seed in group]
    rows = []
    for name in sorted(run.adapt_names(), key=_order):
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


def _order(name: str) -> tuple[int, str]:
    known = DEFAULT_METHODS.index(name) if name in DEFAULT_METHODS else len(DEFAULT_METHODS)
    return known, name


def _row(run: RunDir, algo: str, name: str, seeds: list[int]) -> dict[str, Any]:
    results = [load_results(run, name, seed) for seed in seeds]
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
