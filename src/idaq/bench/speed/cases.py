"""The cases of `idaq bench speed`.

They are the cases that the algorithms' entries name, built in or not. Other parts from outside are
measured with the default algorithm: it is run with each such learner, beside each such judge and on
each such family.
"""

from dataclasses import dataclass

from idaq.algos.base import Algorithm
from idaq.algos.entries import (
    ALGORITHMS,
    AnyAlgorithm,
    SpeedCase,
    default_algorithm,
    label_of,
)
from idaq.config import override
from idaq.envs import FAMILIES, get_family
from idaq.envs.family import traits_of
from idaq.errors import IdaqError
from idaq.judges.base import JUDGES
from idaq.learners.base import LEARNERS
from idaq.runs.resolve import resolve, without_judge
from idaq.settings import AlgorithmConfig
from idaq.types import Spec

MODELS = " + models"  # ends the name of a case with models
SHAPES = {"point": ("Point", "point-robot"), "ml1": ("ML1", "ml1/push")}  # group: label, family


@dataclass(frozen=True)
class Case:
    """What is measured: an algorithm on data of a family's shapes."""

    name: str
    shapes: str
    spec: Spec
    config: AlgorithmConfig
    authors_seconds: float | None = None


def cases() -> list[Case]:
    """Those of every algorithm, then those of other parts from outside the package."""
    own = [_case(entry, each) for entry in ALGORITHMS.values() for each in entry.speed_cases]
    return [*own, *_cases_of_learners(), *_cases_of_judges(), *_cases_of_families()]


def _case(entry: AnyAlgorithm, case: SpeedCase) -> Case:
    label, family = SHAPES.get(case.group) or _first_of_group(entry, case.group)
    config = resolve(case.preset, family, entry.name)
    config = config if case.with_judge else without_judge(config)
    for setting in case.settings:
        config = override(config, setting)
    name = f"{case.label or entry.label} ({case.preset}), {label}"
    return Case(
        name=name + MODELS * case.with_judge,
        shapes=case.group,
        spec=get_family(family).spec,
        config=config.algorithm,
        authors_seconds=case.authors_seconds,
    )


def _first_of_group(entry: AnyAlgorithm, group: str) -> tuple[str, str]:
    """A label and a family for a group from outside."""
    for family in FAMILIES.values():
        if traits_of(family).group == group:
            return family.name, family.name
    raise IdaqError(
        f"A speed case of '{entry.name}' is for the group '{group}', and no family is of it.",
        f"Name one of {', '.join(SHAPES)}, or the group of a registered family.",
    )


def _cases_of_learners() -> list[Case]:
    family = get_family(SHAPES["point"][1])
    default = without_judge(resolve("default", family))
    label = label_of(default.algorithm.kind)
    return [
        Case(
            name=f"{label} with {entry.label} (default), Point",
            shapes="point",
            spec=family.spec,
            config=override(default, f"algorithm.learner.kind={entry.name}").algorithm,
        )
        for entry in LEARNERS.values()
        if not LEARNERS.is_built_in(entry.name)
    ]


def _cases_of_judges() -> list[Case]:
    family = get_family(SHAPES["point"][1])
    default = resolve("default", family)
    label = label_of(default.algorithm.kind)
    return [
        Case(
            name=f"{label} and {entry.label} (default), Point",
            shapes="point",
            spec=family.spec,
            config=override(default, f"algorithm.judge.kind={entry.name}").algorithm,
        )
        for entry in JUDGES.values()
        if not JUDGES.is_built_in(entry.name)
    ]


def _cases_of_families() -> list[Case]:
    label = label_of(default_algorithm())
    return [
        Case(
            name=f"{label} (default), {family.name}",
            shapes=family.name,
            spec=family.spec,
            config=without_judge(resolve("default", family)).algorithm,
        )
        for family in FAMILIES.values()
        if not FAMILIES.is_built_in(family.name)
    ]


def update_operations(algorithm: Algorithm) -> int | None:
    """Floating-point operations of one update, in the algorithm's phase; None if nobody counts."""
    count = ALGORITHMS[algorithm.name].operations
    return None if count is None else count(algorithm)
