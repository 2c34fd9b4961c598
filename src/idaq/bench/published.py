"""The paper's numbers for a family: a method's, and the data's.

Only the experiments say where each number is in the paper's tables (`Column.paper`).
"""

from functools import cache

from idaq.bench.experiments import EXPERIMENTS, Column, Row
from idaq.bench.paper import Published, table
from idaq.envs import FAMILIES
from idaq.envs.family import traits_of
from idaq.settings import DEFAULT_QUALITY


def number_of(row: Row, column: Column) -> Published | None:
    """The paper's number for an entry of an experiment, if it has one."""
    if column.paper is None:
        return None
    name, key = column.paper
    line = table(name).get(row.name)
    if line is None:
        return None
    return Published(float(line[key]), float(line.get(f"{key}_ci95", 0.0)))


def published(
    family: str,
    method: str,
    algorithm: str = Column.algorithm,
    quality: str = DEFAULT_QUALITY,
) -> Published | None:
    """The return that the paper reports for a method on a family, if it reports returns there."""
    return None if has_score(family) else _numbers().get((family, quality, algorithm, method))


def published_score(
    family: str,
    method: str,
    algorithm: str = Column.algorithm,
    quality: str = DEFAULT_QUALITY,
) -> Published | None:
    """The normalised score that the paper reports for a method, if it reports scores there."""
    return _numbers().get((family, quality, algorithm, method)) if has_score(family) else None


def dataset_return(family: str, quality: str = DEFAULT_QUALITY) -> float | None:
    """The mean return of the paper's own dataset."""
    number = _numbers().get((family, quality, Column.algorithm, None))
    return None if number is None else number.mean


def has_score(family: str) -> bool:
    """Whether a family of that name is known and measured by its score."""
    known = FAMILIES.get(family)
    return known is not None and traits_of(known).measure == "score"


@cache
def _numbers() -> dict[tuple[str, str, str, str | None], Published]:
    """By family, quality, algorithm and method (None: the data), without the ablations."""
    return {
        (row.family, row.quality, column.algorithm, column.method): number
        for experiment in EXPERIMENTS.values()
        for row in experiment.rows
        for column in experiment.columns
        if not column.run and not column.adapt
        if (number := number_of(row, column)) is not None
    }
