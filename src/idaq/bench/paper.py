"""The paper's published numbers (Wang et al., ICML 2023), shipped as CSV files beside this."""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Published(NamedTuple):
    """A mean and the half width of its 95% interval."""

    mean: float
    ci95: float


# where a method's number stands: table, column
_RETURNS = (
    ("idaq-return", "mujoco_online", "idaq"),
    ("idaq-prediction-error", "quantifications", "idaq_prediction_error"),
    ("idaq-prediction-variance", "quantifications", "idaq_prediction_variance"),
    ("posterior", "mujoco_online", "focal"),
    ("expert-context", "mujoco_expert_context", "focal_expert_context"),
)
_ML1_SCORES = (
    ("idaq-return", "ml1_online", "idaq"),
    ("idaq-prediction-error", "quantifications", "idaq_prediction_error"),
    ("idaq-prediction-variance", "quantifications", "idaq_prediction_variance"),
    ("posterior", "ml1_online", "focal"),
    ("expert-context", "ml1_expert_context", "focal_expert_context"),
)
_MEDIUM_SCORES = (  # of the sets named SET-medium
    ("idaq-return", "quantifications", "idaq_return"),
    ("idaq-prediction-error", "quantifications", "idaq_prediction_error"),
    ("idaq-prediction-variance", "quantifications", "idaq_prediction_variance"),
    ("posterior", "quantifications", "focal"),
)
_ML1 = "ml1/"


@cache
def table(name: str) -> dict[str, dict[str, str]]:
    """A table's rows by environment."""
    text = files("idaq.bench").joinpath("paper", f"{name}.csv").read_text(encoding="utf-8")
    return {row["environment"]: row for row in csv.DictReader(text.splitlines())}


def published(family: str, method: str, quality: str = "expert") -> Published | None:
    """The return that the paper reports for a method on a family, if it reports returns there."""
    if family.startswith(_ML1) or quality != "expert":
        return None
    return _find(_RETURNS, family, method)


def published_score(family: str, method: str, quality: str = "expert") -> Published | None:
    """The normalised score that the paper reports for a method on an ML1 set."""
    if not family.startswith(_ML1):
        return None
    if quality == "medium":
        return _find(_MEDIUM_SCORES, f"{family.removeprefix(_ML1)}-medium", method)
    return _find(_ML1_SCORES, family.removeprefix(_ML1), method) if quality == "expert" else None


def _find(
    places: tuple[tuple[str, str, str], ...], environment: str, method: str
) -> Published | None:
    for known, name, column in places:
        row = table(name).get(environment)
        if known == method and row is not None:
            return Published(float(row[column]), float(row[f"{column}_ci95"]))
    return None


def dataset_return(family: str, quality: str = "expert") -> float | None:
    """The mean return of the paper's own dataset."""
    suffix = "" if quality == "expert" else f"-{quality}"
    row = table("dataset_returns").get(family.removeprefix(_ML1) + suffix)
    return float(row["dataset_return"]) if row else None
