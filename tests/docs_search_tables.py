"""The tables of the page on searches (docs/search.md) and of its short forms elsewhere."""

import json
from functools import cache
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idaq.runs.directory import RunDir
from idaq.runs.results import load_results
from idaq.runs.run import Run
from idaq.runs.statistics import bootstrap_interval, normalised_score
from idaq.storage.checked import read_json
from idaq.storage.describe import successful_return
from tests.docs_cells import ROOT, markdown, summary_rows, with_interval

RESULTS = ROOT / "results"
Curve = NDArray[np.float64]  # [seeds, budgets]
SETS = sorted(place.name for place in (RESULTS / "ml1" / "bayesian").iterdir())


@cache
def curves(run: str, method: str = "idaq-return") -> dict[str, Curve]:
    """What budgets of 1, 2, ... episodes would have given, from the raw arrays."""
    place = Run.open(RESULTS / run)
    loaded = [load_results(place, method, seed) for seed in place.seeds()]
    returns = np.stack([_anytime(each, "returns") for each in loaded]).astype(np.float64)
    found = {"return": returns.mean(axis=1)}
    if "success" in loaded[0]:
        found["success"] = np.stack([_anytime(each, "success") for each in loaded]).mean(axis=1)
        dataset = read_json(RunDir(RESULTS / run).dataset_file)
        scores = []
        for each, of_seed in zip(loaded, returns, strict=True):
            expert = successful_return(dataset, each["tasks"].tolist())
            assert expert is not None
            scores.append(normalised_score(of_seed.T, expert))
        found["score"] = np.asarray(scores, np.float64)
        found["score_capped"] = np.minimum(found["score"], 1.0)
    return found


def _anytime(results: Any, name: str) -> NDArray[Any]:
    """Of runs that were made before curves were saved, the final point is all there is."""
    key = f"anytime_{name}"
    return np.asarray(results[key] if key in results else results[name][:, -1:])


def at(curve: Curve, budget: int) -> str:
    """The mean over seeds at a budget and its interval, as text."""
    values = curve[:, budget - 1]
    return with_interval(float(values.mean()), bootstrap_interval(values))


# --- Point-Robots and Cheetah-Vel ---------------------------------------------------------------

POINT_ROWS = {
    "idaq-return": "**Bayesian search** (`default`)",
    "idaq-nearest-untried": "nearest untried (`default` before)",
    "search-without-inference": "a search without inference: farthest first, replay the best",
    "paper-rules": "the paper's rules",
    "posterior": "posterior after ten prior episodes (FOCAL)",
    "posterior-from-the-first": "posterior from the second episode on",
}
CONTEXTS = {
    "expert-context": "expert context, one logged episode",
    "expert-context-5": "expert context, five",
    "expert-context-45": "expert context, all 45",
}
POINT_FAMILIES = ("point-robot", "point-robot-sparse")
POINT_BUDGETS = (5, 8, 11, 20)


def point_budgets(family: str) -> str:
    """Methods by budget, on the same agents."""
    run = f"{family}/bayesian"
    rows = [
        [label, *(at(curves(run, name)["return"], budget) for budget in POINT_BUDGETS)]
        for name, label in POINT_ROWS.items()
    ]
    for name, label in CONTEXTS.items():
        rows.append([label, *("" for _ in POINT_BUDGETS[1:]), at(curves(run, name)["return"], 1)])
    return markdown(["", *(f"{budget} episodes" for budget in POINT_BUDGETS)], rows)


CHEETAH_BUDGETS = (3, 5, 7, 10)


def cheetah_budgets() -> str:
    """Cheetah-Vel by budget."""
    run = "cheetah-vel/bayesian"
    ours = curves(run)["return"]
    before = at(curves("cheetah-vel/default")["return"], 1)
    context = at(curves(run, "expert-context")["return"], 1)
    rows = [
        [POINT_ROWS["idaq-return"], *(at(ours, budget) for budget in CHEETAH_BUDGETS)],
        ["far, then near (`default` before)", *("" for _ in CHEETAH_BUDGETS[1:]), before],
        [CONTEXTS["expert-context"], *("" for _ in CHEETAH_BUDGETS[1:]), context],
    ]
    return markdown(["", *(f"{budget} episodes" for budget in CHEETAH_BUDGETS)], rows)


# --- ML1 ------------------------------------------------------------------------------------------

ML1_BUDGETS = (5, 7, 10)


def summary(run: str) -> dict[str, dict[str, Any]]:
    """The rows of a summary, by method."""
    return {row["method"]: row for row in summary_rows(run)}


def ml1_budgets() -> str:
    """Score and success by budget, set by set, beside the default before and expert context."""
    rows, values = [], []
    for name in SETS:
        ours = curves(f"ml1/bayesian/{name}")
        before = summary(f"ml1/default/{name}")["idaq-return"]
        context = summary(f"ml1/bayesian/{name}")["expert-context"]
        cells, numbers = [name], []
        for budget in ML1_BUDGETS:
            success = ours["success"][:, budget - 1].mean()
            cells += [at(ours["score"], budget), f"{success:.2f}"]
            numbers += [ours["score_capped"][:, budget - 1].mean(), success]
        for row in (before, context):
            cells += [f"{row['score']:.2f}", f"{row['success']:.2f}"]
            numbers += [row["score_capped"], row["success"]]
        rows.append(cells)
        values.append(numbers)
    means = [f"{mean:.3f}" for mean in np.mean(np.asarray(values, np.float64), axis=0)]
    rows.append(["**mean, scores capped at 1**", *means])
    budgets = [f"{budget} episodes" for budget in ML1_BUDGETS]
    headings = [*budgets, "before, 10 episodes", "expert context"]
    beside = [cell for heading in headings for cell in (heading, "success")]
    return markdown(["set", *beside], rows)


def ml1_search_means() -> str:
    """The last line of the table above, budget by budget."""
    rows = []
    for label, budget in ((f"{budget} episodes", budget) for budget in ML1_BUDGETS):
        found = [curves(f"ml1/bayesian/{name}") for name in SETS]
        score = fmean(each["score_capped"][:, budget - 1].mean() for each in found)
        success = fmean(each["success"][:, budget - 1].mean() for each in found)
        rows.append([f"Bayesian search, {label}", f"{score:.3f}", f"{success:.2f}"])
    for label, place, method in (
        ("far, then near (`default` before), 10 episodes", "default", "idaq-return"),
        ("posterior sampling (FOCAL), 10 episodes", "default", "posterior"),
        ("expert context, one logged episode", "bayesian", "expert-context"),
    ):
        lines = [summary(f"ml1/{place}/{name}")[method] for name in SETS]
        score = fmean(line["score_capped"] for line in lines)
        rows.append([label, f"{score:.3f}", f"{fmean(line['success'] for line in lines):.2f}"])
    return markdown(["", "score, capped at 1", "success"], rows)


# --- Measures -------------------------------------------------------------------------------------

MEASURES = {
    "idaq-return": "return",
    "idaq-relative-return": "return relative to its logs",
    "idaq-return-and-unlikeness": "return and unlikeness",
    "idaq-unlikeness": "unlikeness to the logs",
    "idaq-distance-to-logs": "distance to the logs",
    "idaq-prediction-error": "prediction error",
    "idaq-prediction-variance": "prediction variance",
}
MEASURED_SETS = ("reach", "assembly", "pick-place", "push")


def measures() -> str:
    """The final return or score by every measure, with the Bayesian search."""
    runs = [f"{family}/bayesian" for family in (*POINT_FAMILIES, "cheetah-vel")]
    runs += [f"ml1/bayesian/{name}" for name in MEASURED_SETS]
    rows = []
    for name, label in MEASURES.items():
        cells = [label]
        for run in runs:
            row = summary(run).get(name)
            if row is None:
                cells.append("-")
            elif "score" in row:
                cells.append(f"{row['score']:.2f} ({row['success']:.2f})")
            else:
                cells.append(with_interval(row["mean"], row["ci95"]))
        rows.append(cells)
    headings = ["Point-Robot", "Sparse", "Cheetah-Vel"]
    headings += [f"{name}, score (success)" for name in MEASURED_SETS]
    return markdown(["", *headings], rows)


TRIAL_TRIES = {
    "point-robot@7": (7, 10, 19),
    "point-robot-sparse@7": (7, 10, 19),
    "cheetah-vel@7": (4, 9),
}
ML1_TRIES = (4, 6, 9)


def trials() -> str:
    """Searches replayed on the tables of other draws."""
    text = (RESULTS / "tuning" / "searches.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    rows = []
    for trial in dict.fromkeys(line["trial"] for line in lines):
        of = {line["family"]: line for line in lines if line["trial"] == trial}
        cells = [trial]
        for family, tries in TRIAL_TRIES.items():
            cells.append(" / ".join(f"{of[family]['return'][k - 1]:.2f}" for k in tries))
        sets = [line for family, line in of.items() if family.startswith("ml1")]
        for name in ("ratio", "success"):
            means = [fmean(line[name][k - 1] for line in sets) for k in ML1_TRIES]
            cells.append(" / ".join(f"{mean:.2f}" for mean in means))
        rows.append(cells)
    points = [f"{name}, after 7 / 10 / 19" for name in ("Point-Robot", "Sparse")]
    ml1 = [f"ML1 {name}, after 4 / 6 / 9" for name in ("score", "success")]
    return markdown(["search", *points, "Cheetah-Vel, after 4 / 9", *ml1], rows)


def search_tables() -> dict[str, str]:
    """Every table by its marker."""
    return {
        "search-point-robot": point_budgets("point-robot"),
        "search-point-robot-sparse": point_budgets("point-robot-sparse"),
        "search-cheetah-vel": cheetah_budgets(),
        "search-ml1": ml1_budgets(),
        "search-ml1-means": ml1_search_means(),
        "search-measures": measures(),
        "search-trials": trials(),
    }
