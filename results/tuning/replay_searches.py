"""Searches replayed on the tables of `hypothesis_tables.py`: what the first k tries would find.

    python results/tuning/replay_searches.py results/tuning/searches.jsonl

A table holds what every candidate returns on every held-out task, so that a search costs nothing.
One line per trial and family: by number of tries, the mean over seeds and tasks of the best return
so far, of its ratio to the logs' return on the task, and of that episode's success. The posterior
of what was kept is no candidate here, as it depends on the episodes.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

TABLES = Path(__file__).with_name("hypothesis-tables")
Table = dict[str, Any]
Search = Callable[[Table, Any, int], Any]  # (table, returns of the candidates, tries): which


def distances(points: Any) -> Any:
    points = np.asarray(points, np.float64)
    return np.linalg.norm(points[:, None] - points, axis=-1)


def load(file: Path) -> Table:
    """A table, with the candidates of each kind and the distances between all of them."""
    table = dict(np.load(file))
    num, pairs = len(table["prior"]), table["pairs"]
    halfway = table["prior"][pairs].mean(axis=1)
    table["embedding"] = distances(np.concatenate([table["prior"], halfway]))
    table["policy"] = table["policy_distance"].astype(np.float64)
    every = list(map(tuple, pairs.tolist()))
    for kind in ("embedding", "policy"):
        chosen = set(map(tuple, table[f"{kind}_pairs"].tolist()))
        between = [num + i for i, pair in enumerate(every) if pair in chosen]
        table[f"{kind}_halfway"] = np.concatenate([np.arange(num), between]).astype(int)
    table["none_halfway"] = np.arange(num)
    table["logged"] = table["logged_returns"].mean()
    return table


def in_units(table: Table, by: str, candidates: Any) -> tuple[Any, int]:
    """Distances between candidates in units of the training tasks' median, and the middle."""
    num = len(table["prior"])
    between = table[by][:num, :num]
    unit = np.median(between[np.triu_indices(num, 1)])
    return table[by][np.ix_(candidates, candidates)] / unit, int(between.mean(axis=1).argmin())


def gaussian_process(
    table: Table,
    returns: Any,
    tries: int,
    by: str = "embedding",
    halfway: str = "embedding",
    length: float = 0.6,
    rough: float = 0.0,
    deviations: float = 1.5,
    noise: float = 0.01,
    own_scale: bool = False,
) -> Any:
    """The largest upper bound of a Gaussian process."""
    candidates = table[f"{halfway}_halfway"]
    x, middle = in_units(table, by, candidates)
    kernel = (1 - rough) * np.exp(-0.5 * (x / length) ** 2) + rough * np.exp(-x)
    y, tried = returns[candidates], [middle]
    while len(tried) < tries:
        seen = y[tried]
        gap = 0.0 if own_scale else (table["logged"] - seen.mean()) / deviations
        scale = max(seen.std(), gap, 1e-9)
        covariance = kernel[np.ix_(tried, tried)] + noise * np.eye(len(tried))
        weights = np.linalg.solve(covariance, kernel[tried])
        variance = np.maximum(1 - (kernel[tried] * weights).sum(axis=0), 0)
        upper = weights.T @ ((seen - seen.mean()) / scale) + deviations * np.sqrt(variance)
        upper[tried] = -np.inf
        tried.append(int(upper.argmax()))
    return candidates[tried]


def cone(table: Table, returns: Any, tries: int, residual: float = 0.4) -> Any:
    """The same around a cone whose top, of unknown place and slope, has the logs' return."""
    candidates = table["embedding_halfway"]
    x, middle = in_units(table, "embedding", candidates)
    kernel = 0.5 * np.exp(-0.5 * (x / 0.6) ** 2) + 0.5 * np.exp(-x)
    y, tried = returns[candidates], [middle]
    while len(tried) < tries:
        seen = y[tried]
        scale = max(seen.std(), table["logged"] - seen.mean(), 1e-9)
        u = (seen - seen.mean()) / scale
        top = max((table["logged"] - seen.mean()) / scale, u.max())
        means, variances, evidence = [], [], []
        for size, tops in (
            (1.0, [np.zeros((1, len(x)))]),
            (residual, [top - a * x for a in SLOPES]),
        ):
            near = size**2 * kernel[:, tried]
            covariance = size**2 * kernel[np.ix_(tried, tried)] + 0.01 * np.eye(len(tried))
            inverse = np.linalg.inv(covariance)
            variance = np.maximum(size**2 - ((near @ inverse) * near).sum(axis=1), 1e-9)
            for mean in tops:
                left = u - mean[:, tried]
                fit = -0.5 * np.einsum("wi,ij,wj->w", left, inverse, left)
                fit -= 0.5 * np.linalg.slogdet(covariance)[1] + np.log(len(mean) * len(tops))
                means.append(mean + left @ (near @ inverse).T)
                variances.append(np.broadcast_to(variance, mean.shape))
                evidence.append(fit)
        mean, variance, fit = map(np.concatenate, (means, variances, evidence))
        weight = np.exp(fit - fit.max())
        weight /= weight.sum()
        middle_of_all = weight @ mean
        spread = weight @ (mean**2 + variance) - middle_of_all**2
        upper = middle_of_all + np.sqrt(np.maximum(spread, 0))
        upper[tried] = -np.inf
        tried.append(int(upper.argmax()))
    return candidates[tried]


SLOPES = (0.5, 1.0, 2.0, 4.0)


def far_then_near(table: Table, returns: Any, tries: int) -> Any:
    """The rules of `search`, from the first training task on and without the posterior."""
    num = len(table["prior"])
    between = table["embedding"][:num, :num]
    alike = 0.1 * np.median(between[np.triu_indices(num, 1)])
    tried = [0]
    while len(tried) < tries:
        seen, from_tried = returns[tried], between[:, tried].min(axis=1)
        is_new = from_tried > alike
        resembles_logs = seen.max() >= 0.5 * (table["logged"] + seen.mean())
        if len(tried) < 5 or (not resembles_logs and is_new.any()):
            tried.append(int(from_tried.argmax()))
        else:
            best = tried[int(seen.argmax())]
            tried.append(int(np.where(is_new, between[best], np.inf).argmin()))
    return np.array(tried)


GP = gaussian_process
TRIALS: dict[str, Search] = {
    "far, then near (before)": far_then_near,
    "own deviation as scale": partial(GP, own_scale=True),
    "no points between": partial(GP, halfway="none"),
    "smooth, length 0.45": partial(GP, length=0.45),
    "smooth, length 0.6": GP,
    "smooth, length 0.8": partial(GP, length=0.8),
    "smooth, one deviation": partial(GP, deviations=1.0),
    "smooth, three deviations": partial(GP, deviations=3.0),
    "smooth, noise 0.001": partial(GP, noise=0.001),
    "smooth, noise 0.1": partial(GP, noise=0.1),
    "rough": partial(GP, rough=1.0),
    "distance between policies": partial(GP, by="policy", halfway="policy"),
    "cone": cone,
    "half rough, one deviation (taken)": partial(GP, rough=0.5, deviations=1.0),
}


def replay(search: Search, tables: list[Table], tries: int) -> dict[str, list[float]]:
    """Means over seeds and tasks by number of tries."""
    best, ratio, success = [], [], []
    for table in tables:
        for task, returns in enumerate(table["returns"].astype(np.float64)):
            chosen = search(table, returns, tries)
            found = returns[chosen]
            so_far = np.maximum.accumulate(found)
            places = [int(found[: k + 1].argmax()) for k in range(tries)]
            best.append(so_far)
            ratio.append(so_far / table["test_logged_returns"][task])
            success.append(table["success"][task][chosen[places]])
    return {
        "return": np.mean(best, axis=0).round(4).tolist(),
        "ratio": np.mean(ratio, axis=0).round(4).tolist(),
        "success": np.mean(success, axis=0).round(4).tolist(),
    }


def main(out: Path) -> None:
    families = sorted({file.stem.rsplit("-", 1)[0] for file in TABLES.glob("*.npz")})
    with out.open("w") as lines:
        for family in families:
            tables = [load(file) for file in sorted(TABLES.glob(f"{family}-1??.npz"))]
            tries = 19 if family.startswith("point") else 9
            for trial, search in TRIALS.items():
                row = {"trial": trial, "family": family, **replay(search, tables, tries)}
                lines.write(json.dumps(row) + "\n")
                lines.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
