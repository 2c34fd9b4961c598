"""The paper's published numbers (Wang et al., ICML 2023), shipped as CSV files beside this."""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Published(NamedTuple):
    """A mean and the half width of its 95% interval."""

    mean: float
    ci95: float


# where each number is: algorithm, method, table, column
_RETURNS = (
    ("focal", "idaq-return", "mujoco_online", "idaq"),
    ("focal", "idaq-prediction-error", "quantifications", "idaq_prediction_error"),
    ("focal", "idaq-prediction-variance", "quantifications", "idaq_prediction_variance"),
    ("focal", "posterior", "mujoco_online", "focal"),
    ("focal", "expert-context", "mujoco_expert_context", "focal_expert_context"),
    ("macaw", "fine-tuning", "mujoco_online", "macaw"),
    ("macaw", "expert-context", "mujoco_expert_context", "macaw_expert_context"),
    ("borel", "belief", "mujoco_online", "borel"),
)
_ML1_SCORES = (
    ("focal", "idaq-return", "ml1_online", "idaq"),
    ("focal", "idaq-prediction-error", "quantifications", "idaq_prediction_error"),
    ("focal", "idaq-prediction-variance", "quantifications", "idaq_prediction_variance"),
    ("focal", "posterior", "ml1_online", "focal"),
    ("focal", "expert-context", "ml1_expert_context", "focal_expert_context"),
    ("op-cl", "idaq-return", "ablation_op_cl", "opcl_idaq"),
    ("op-cl", "posterior", "ablation_op_cl", "opcl"),
    ("macaw", "fine-tuning", "ml1_online", "macaw"),
    ("macaw", "expert-context", "ml1_expert_context", "macaw_expert_context"),
    ("borel", "belief", "ml1_online", "borel"),
)
_MEDIUM_SCORES = (  # of the sets named SET-medium
    ("focal", "idaq-return", "quantifications", "idaq_return"),
    ("focal", "idaq-prediction-error", "quantifications", "idaq_prediction_error"),
    ("focal", "idaq-prediction-variance", "quantifications", "idaq_prediction_variance"),
    ("focal", "posterior", "quantifications", "focal"),
)
_ML1 = "ml1/"


@cache
def table(name: str) -> dict[str, dict[str, str]]:
    """A table's rows by environment."""
    text = files("idaq.bench").joinpath("paper", f"{name}.csv").read_text(encoding="utf-8")
    return {row["environment"]: row for row in csv.DictReader(text.splitlines())}


def published(
    family: str, method: str, algorithm: str = "focal", quality: str = "expert"
) -> Published | None:
    """The return that the paper reports for a method on a family, if it reports returns there."""
    if family.startswith(_ML1) or quality != "expert":
        return None
    return _find(_RETURNS, family, method, algorithm)


def published_score(
    family: str, method: str, algorithm: str = "focal", quality: str = "expert"
) -> Published | None:
    """The normalised score that the paper reports for a method on an ML1 set."""
    if not family.startswith(_ML1):
        return None
    name = family.removeprefix(_ML1)
    if quality == "medium":
        return _find(_MEDIUM_SCORES, f"{name}-medium", method, algorithm)
    return _find(_ML1_SCORES, name, method, algorithm) if quality == "expert" else None


def _find(
    places: tuple[tuple[str, str, str, str], ...], environment: str, method: str, algorithm: str
) -> Published | None:
    for known_algorithm, known_method, name, column in places:
        row = table(name).get(environment)
        if (known_algorithm, known_method) == (algorithm, method) and row is not None:
            return Published(float(row[column]), float(row[f"{column}_ci95"]))
    return None


def dataset_return(family: str, quality: str = "expert") -> float | None:
    """The mean return of the paper's own dataset."""
    suffix = "" if quality == "expert" else f"-{quality}"
    row = table("dataset_returns").get(family.removeprefix(_ML1) + suffix)
    return float(row["dataset_return"]) if row else None
