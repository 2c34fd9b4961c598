"""The paper's tables (Wang et al., ICML 2023), shipped as CSV files beside this."""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Published(NamedTuple):
    """A mean and the half width of its 95% interval."""

    mean: float
    ci95: float


@cache
def table(name: str) -> dict[str, dict[str, str]]:
    """A table's rows by environment."""
    text = files("idaq.bench").joinpath("paper", f"{name}.csv").read_text(encoding="utf-8")
    return {row["environment"]: row for row in csv.DictReader(text.splitlines())}
