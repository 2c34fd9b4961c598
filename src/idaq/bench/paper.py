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
_PLACES = (
    ("idaq-return", "mujoco_online", "idaq"),
    ("idaq-return", "quantifications", "idaq_return"),
    ("idaq-prediction-error", "quantifications", "idaq_prediction_error"),
    ("idaq-prediction-variance", "quantifications", "idaq_prediction_variance"),
    ("posterior", "mujoco_online", "focal"),
    ("posterior", "quantifications", "focal"),
    ("expert-context", "mujoco_expert_context", "focal_expert_context"),
)


@cache
def table(name: str) -> dict[str, dict[str, str]]:
    """A table's rows by environment."""
    text = files("idaq.bench").joinpath("paper", f"{name}.csv").read_text(encoding="utf-8")
    return {row["environment"]: row for row in csv.DictReader(text.splitlines())}


def published(family: str, method: str) -> Published | None:
    """What the paper reports for a method on a family, if it does."""
    for known, name, column in _PLACES:
        row = table(name).get(family)
        if known == method and row is not None:
            return Published(float(row[column]), float(row[f"{column}_ci95"]))
    return None


def dataset_return(family: str) -> float | None:
    """The mean return of the paper's own dataset."""
    row = table("dataset_returns").get(family)
    return float(row["dataset_return"]) if row else None
