"""`summary.json`: one row per adaptation method, computed from the raw results.

A row tells what the final episode scored and, in `anytime`, what the score would have been, had the
budget ended after 1, 2, ... episodes. Results of older versions do not have the latter.

A saved row is replaced only by one with all of its values, and dropped only if its raw results are
there to compute it again. Otherwise it stays, beside the rows that could be computed; if those are
of other seeds, the saved file stays as it is.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idaq.config import Json
from idaq.errors import IdaqError
from idaq.runs.directory import RunDir
from idaq.runs.labels import is_given_logs, method_order
from idaq.runs.results import RawResults, anytime_returns, load_seeds
from idaq.runs.run import Run, RunPlace
from idaq.runs.statistics import (
    bootstrap_interval,
    bootstrap_intervals,
    capped_score,
    episodes_to,
    episodes_to_interval,
    normalised_score,
    per_seed_mean,
)
from idaq.storage.atomic import write_json
from idaq.storage.checked import REMEDY, read_json
from idaq.storage.describe import read_description, successful_return
from idaq.types import AnyArray

FloatArray = NDArray[np.float64]

_AREAS = {"mean": "anytime_area", "score_capped": "anytime_area_score_capped"}
_MEANS = (  # besides that of the return
    *("success", "score", "score_capped", "score_dataset"),
    *_AREAS.values(),
)
_CURVES = {"mean": "ci95", "success": "success_ci95", "score_capped": "score_capped_ci95"}
_MAYBE_NONE = ("success", "episodes_to_95", "episodes_to_95_ci95")
MIN_REFERENCE = 1e-30  # of a score; with anything smaller a ratio may not be finite
SHARE = 0.95  # of the way from one episode's score to expert context's


def summarise(run: RunPlace) -> Json:
    """Compute the summary of all results, write it, and return it.

    Saved rows that could not be computed again are kept as the module's docstring says.
    """
    run = Run.open(run)
    summary, saved = summary_of(run), saved_summary(run)
    if saved is None or not (kept := _only_saved(run, saved, summary)):
        write_json(run.directory.summary_file, summary)
        return summary
    if summary["rows"] and summary["seeds"] != saved["seeds"]:
        return summary
    rows = {row["method"]: row for row in summary["rows"]} | kept
    merged = {
        **summary,
        "quality": summary["quality"] if run.directory.dataset_file.is_file() else saved["quality"],
        "seeds": saved["seeds"],
        "rows": [rows[name] for name in sorted(rows, key=method_order)],
    }
    if merged != saved:
        write_json(run.directory.summary_file, merged)
    return merged


def without_results(run: Run) -> list[str]:
    """The methods for which only a saved row is left."""
    saved = saved_summary(run) or {"seeds": [], "rows": []}
    names = [row["method"] for row in saved["rows"]]
    return [name for name in names if not _has_results(run, name, saved["seeds"])]


def saved_summary(run: Run) -> Json | None:
    """The summary on disk, or None where there is none or it is damaged."""
    if not run.directory.summary_file.is_file():
        return None
    try:
        saved = read_json(run.directory.summary_file)
    except IdaqError:
        return None
    if not isinstance(saved, dict):
        return None
    seeds, rows = saved.get("seeds"), saved.get("rows")
    is_whole = (
        isinstance(seeds, list)
        and all(type(seed) is int for seed in seeds)
        and isinstance(rows, list)
        and all(map(_is_row, rows))
        and isinstance(saved.setdefault("quality", "expert"), str)
    )
    return saved if is_whole else None


def _is_row(row: object) -> bool:
    return (
        isinstance(row, dict)
        and row.keys() >= {"algo", "method", "mean", "ci95", "episodes", "tasks"}
        and all(_is_value(name, value) for name, value in row.items())
    )


def _is_value(name: str, value: object) -> bool:
    """Whether a row may have this value under this name."""
    if name in _MAYBE_NONE and value is None:
        return True
    if name in ("algo", "method"):
        return isinstance(value, str)
    if name in ("episodes", "tasks", "episodes_to_95"):
        return type(value) is int
    if name in ("ci95", "episodes_to_95_ci95", *(f"{mean}_ci95" for mean in _MEANS)):
        return _is_interval(value)
    if name == "anytime":
        return isinstance(value, dict) and all(map(_is_curve, value, value.values()))
    return name in ("mean", *_MEANS) and type(value) is float


def _is_interval(value: object) -> bool:
    return isinstance(value, list) and list(map(type, value)) == [float, float]


def _is_curve(name: str, values: object) -> bool:
    if not isinstance(values, list) or not values:
        return False
    if name in _CURVES.values():
        return all(map(_is_interval, values))
    return name in _CURVES and all(type(value) is float for value in values)


def _only_saved(run: Run, saved: Json, summary: Json) -> dict[str, Json]:
    """The saved rows, by method, with values that cannot be computed any more."""
    computed = {row["method"]: row for row in summary["rows"]}
    return {
        row["method"]: row
        for row in saved["rows"]
        if (
            not _told(row) <= _told(computed[row["method"]])
            if row["method"] in computed
            else not _has_results(run, row["method"], saved["seeds"])
        )
    }


def _told(row: Json) -> set[str]:
    """What a row has values of. A curve that never reaches expert context is no missing value."""
    return {name for name, value in row.items() if value is not None} - {"episodes_to_95"}


def _has_results(run: Run, name: str, seeds: list[int]) -> bool:
    """Whether a row of these seeds can be computed again."""
    if not set(seeds) <= set(run.seeds()):
        return False
    place = run.directory
    files = [place.adapt_config_file(name), *(place.result_file(name, seed) for seed in seeds)]
    return all(file.is_file() for file in files)


def summary_of(run: Run) -> Json:
    """The summary of all results."""
    identity, seeds = run.identity, run.seeds()
    outside = {"components": sorted(identity.components)} if identity.components else {}
    names = complete_names(run.directory, seeds)
    expert = next(
        (seed_values(run.directory, n, seeds)["mean"] for n in names if is_given_logs(n)), None
    )
    return outside | {
        "family": identity.family,
        "quality": data_quality(run.directory),
        "preset": identity.preset,
        "split": identity.split,
        "seeds": seeds,
        "rows": [_row(run, name, seeds, expert) for name in names],
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
    data = read_description(run.dataset_file) if run.dataset_file.is_file() else {}
    return str(data.get("quality") or "expert")


def _row(run: Run, name: str, seeds: list[int], expert: FloatArray | None) -> Json:
    """One method's; `expert` [seeds] is the return of expert context, if the run has it."""
    results = load_seeds(run, name, seeds)
    references = _references(run.directory, results)
    values = _values(results, "", -1, references)
    shape = results[0]["returns"].shape
    row: Json = {"algo": run.identity.algo, "method": name}
    row |= _mean_and_interval("mean", "ci95", values.pop("mean"))
    row |= {"success": None, "episodes": int(shape[1]), "tasks": int(shape[0])}
    for what, per_seed in values.items():
        row |= _mean_and_interval(what, f"{what}_ci95", per_seed)
    curves = _anytime_values(results, references)
    return row | _anytime(curves, expert) if curves else row


def seed_values(run: RunDir, name: str, seeds: list[int]) -> dict[str, FloatArray]:
    """Every seed's results in a method's final episode, averaged over tasks; each [seeds].

    `mean` is the return. If the family has success, there are also `success`; `score`, the return
    divided by that of successful episodes of the same tasks, logged or by the scripted expert (see
    `idaq.storage.describe`); `score_capped`, the same and at most 1; and `score_dataset`, divided
    by the dataset's mean. There are no scores relative to a return that is not positive.
    """
    results = load_seeds(run, name, seeds)
    return _values(results, "", -1, _references(run, results))


def anytime_values(run: RunDir, name: str, seeds: list[int]) -> dict[str, FloatArray]:
    """The same, had the budget ended after 1, 2, ... episodes; each [seeds, N].

    Of the returns, success and the capped scores. Empty if the results do not say.
    """
    results = load_seeds(run, name, seeds)
    return _anytime_values(results, _references(run, results))


class _References(NamedTuple):
    """The returns that scores are relative to; none where there are no such scores."""

    expert: list[float] | None = None  # per seed
    dataset: float | None = None


def _references(run: RunDir, results: list[RawResults]) -> _References:
    if not all("success" in r for r in results) or not run.dataset_file.is_file():
        return _References()
    data = read_description(run.dataset_file)
    expert = [successful_return(data, r["tasks"].tolist()) or 0.0 for r in results]
    mean_return = data.get("mean_return") or 0.0
    if any(0.0 < reference < MIN_REFERENCE for reference in (*expert, mean_return)):
        raise IdaqError(f"'{run.dataset_file}' has returns that nothing is relative to.", REMEDY)
    return _References(
        expert if all(reference > 0.0 for reference in expert) else None,
        mean_return if mean_return > 0.0 else None,
    )


def _values(
    results: list[RawResults], prefix: str, episode: int, references: _References
) -> dict[str, FloatArray]:
    """Every seed's results in one column of the arrays of that prefix; each [seeds]."""
    returns = np.stack([r[f"{prefix}returns"][:, episode] for r in results])  # [seeds, tasks]
    values = {"mean": per_seed_mean(returns)}
    if all(f"{prefix}success" in r for r in results):
        success = np.stack([r[f"{prefix}success"][:, episode] for r in results])
        values["success"] = per_seed_mean(success)
    if references.expert is not None:
        pairs = [(each[None], one) for each, one in zip(returns, references.expert, strict=True)]
        values["score"] = np.concatenate([normalised_score(r, v) for r, v in pairs])
        values["score_capped"] = np.concatenate([capped_score(r, v) for r, v in pairs])
    if references.dataset is not None:
        values["score_dataset"] = normalised_score(returns, references.dataset)
    return values


def _anytime_values(results: list[RawResults], references: _References) -> dict[str, FloatArray]:
    if any("anytime_returns" not in r or anytime_returns(r) is None for r in results):
        return {}
    shape = results[0]["returns"].shape
    points = [_values(results, "anytime_", k, references) for k in range(shape[1])]
    return {
        name: np.stack([p[name] for p in points], axis=1) for name in _CURVES if name in points[0]
    }


def _anytime(curves: Mapping[str, FloatArray], expert: FloatArray | None) -> Json:
    """What a row says of curves [seeds, N]."""
    anytime: Json = {}
    for name, curve in curves.items():
        anytime[name] = [float(per_seed.mean()) for per_seed in curve.T]
        anytime[_CURVES[name]] = bootstrap_intervals(curve.T).tolist()
    row: Json = {"anytime": anytime}
    for name, area in _AREAS.items():
        if name in curves:
            row |= _mean_and_interval(area, f"{area}_ci95", curves[name].mean(axis=1))
    if expert is None:
        return row | {"episodes_to_95": None, "episodes_to_95_ci95": None}
    return row | {
        "episodes_to_95": episodes_to(curves["mean"], expert, SHARE),
        "episodes_to_95_ci95": list(episodes_to_interval(curves["mean"], expert, SHARE)),
    }


def _mean_and_interval(mean: str, interval: str, per_seed: AnyArray) -> Json:
    return {mean: float(per_seed.mean()), interval: list(bootstrap_interval(per_seed))}
