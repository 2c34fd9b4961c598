"""`summary.json`: one row per adaptation method, computed from the raw results.

A saved row is replaced only by one with all of its values, and dropped only if its raw results are
there to compute it again. Otherwise it stays, beside the rows that could be computed; if those are
of other seeds, the saved file stays as it is.
"""

import numpy as np
from numpy.typing import NDArray

from idaq.config import Json
from idaq.errors import IdaqError
from idaq.runs.directory import RunDir
from idaq.runs.labels import method_order
from idaq.runs.results import load_results
from idaq.runs.run import Run, RunPlace
from idaq.runs.statistics import bootstrap_interval, capped_score, normalised_score, per_seed_mean
from idaq.storage.atomic import write_json
from idaq.storage.checked import read_json, read_object
from idaq.storage.describe import successful_return
from idaq.types import AnyArray

_MEANS = ("success", "score", "score_capped", "score_dataset")  # besides that of the return
_NO_SUCCESS = ("success", None)  # of a family without success


def summarise(run: RunPlace) -> Json:
    """Compute the summary of all results, write it, and return it.

    Saved rows that could not be computed again are kept as the module's docstring says.
    """
    run = Run.open(run)
    summary, saved = summary_of(run), _saved_summary(run)
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
    saved = _saved_summary(run) or {"seeds": [], "rows": []}
    names = [row["method"] for row in saved["rows"]]
    return [name for name in names if not _has_results(run, name, saved["seeds"])]


def _saved_summary(run: Run) -> Json | None:
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
    if name in ("algo", "method"):
        return isinstance(value, str)
    if name in ("episodes", "tasks"):
        return type(value) is int
    if name in ("ci95", *(f"{mean}_ci95" for mean in _MEANS)):
        return isinstance(value, list) and list(map(type, value)) == [float, float]
    return name in ("mean", *_MEANS) and (type(value) is float or (name, value) == _NO_SUCCESS)


def _only_saved(run: Run, saved: Json, summary: Json) -> dict[str, Json]:
    """The saved rows, by method, with values that cannot be computed any more."""
    computed = {row["method"]: row for row in summary["rows"]}
    return {
        row["method"]: row
        for row in saved["rows"]
        if (
            not row.keys() <= computed[row["method"]].keys()
            if row["method"] in computed
            else not _has_results(run, row["method"], saved["seeds"])
        )
    }


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
    return outside | {
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


def _row(run: Run, name: str, seeds: list[int]) -> Json:
    values = seed_values(run.directory, name, seeds)
    shape = load_results(run, name, seeds[0])["returns"].shape
    row: Json = {"algo": run.identity.algo, "method": name}
    row |= _mean_and_interval("mean", "ci95", values.pop("mean"))
    row |= {"success": None, "episodes": int(shape[1]), "tasks": int(shape[0])}
    for what, per_seed in values.items():
        row |= _mean_and_interval(what, f"{what}_ci95", per_seed)
    return row


def seed_values(run: RunDir, name: str, seeds: list[int]) -> dict[str, NDArray[np.float64]]:
    """Every seed's results in a method's final episode, averaged over tasks; each [seeds].

    `mean` is the return. If the family has success, there are also `success`; `score`, the return
    divided by that of successful episodes of the same tasks, logged or by the scripted expert (see
    `idaq.storage.describe`); `score_capped`, the same and at most 1; and `score_dataset`, divided
    by the dataset's mean. There are no scores relative to a return that is not positive.
    """
    results = [load_results(run, name, seed) for seed in seeds]
    if len({r["returns"].shape for r in results}) > 1:
        raise IdaqError(
            f"The results in '{run.adapt(name)}' differ in shape between seeds.",
            "Remove them and adapt again with `resume=True`.",
        )
    final = np.stack([r["returns"][:, -1] for r in results])  # [seeds, tasks]
    values = {"mean": per_seed_mean(final)}
    if all("success" in r for r in results):
        success = np.stack([r["success"][:, -1] for r in results])
        values["success"] = per_seed_mean(success)
        values |= _scores(run, final, [r["tasks"].tolist() for r in results])
    return values


def _scores(run: RunDir, final: AnyArray, tasks: list[list[int]]) -> dict[str, NDArray[np.float64]]:
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


def _mean_and_interval(mean: str, interval: str, per_seed: AnyArray) -> Json:
    return {mean: float(per_seed.mean()), interval: list(bootstrap_interval(per_seed))}
