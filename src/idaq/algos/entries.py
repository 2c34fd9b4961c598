"""Algorithms and objectives by name.

An algorithm is whatever meta-trains agents. An *objective* is less: it says how a context encoder
is trained, and everything else (the learner behind it, the judge beside it, presets, adaptation) is
shared (`idaq.algos.context_based`). Every objective makes an algorithm of its own name.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast

from idaq.algos.base import Algorithm, RemembersLogs
from idaq.algos.logs import Logs
from idaq.config import Component, check_configured
from idaq.objectives.base import Objective
from idaq.registry import PLACES, Entry, Registry, registry_of
from idaq.settings import AlgorithmConfig, RunConfig
from idaq.types import PyTree, Spec, Traits

# what `idaq run` compares unless it is told other methods: the paper's comparison
PAPER_METHODS = (
    "idaq-return",
    "idaq-prediction-error",
    "idaq-prediction-variance",
    "posterior",
    "expert-context",
)

# what an algorithm may offer to adaptation methods, besides its judges
EMBEDDING = "embedding"  # hypotheses are points of a space whose origin means nothing
GRADIENT_STEPS = "gradient steps"  # `idaq.adapt.fine_tuning.GradientAlgorithm`
BELIEF = "belief"  # a hypothesis is a memory that is carried from step to step
LOGS = "logs"  # its agents may remember logged transitions (`logs_of`)

FIRST_VERSION = 1  # of what comes with the package: it goes without saying

Preset = Callable[[str, Traits], RunConfig]
Config = TypeVar("Config", bound=AlgorithmConfig)
Made = TypeVar("Made", bound=Algorithm)


@dataclass(frozen=True, kw_only=True)
class SpeedCase:
    """A setting in which `idaq bench speed` measures an algorithm."""

    preset: str
    group: str  # of task families, whose shapes are taken
    label: str = ""  # the algorithm's own, unless it is given
    settings: tuple[str, ...] = ()  # name=value
    with_judge: bool = False
    authors_seconds: float | None = None  # per update, of released code on two cores


DEFAULT_SPEED_CASES = (
    SpeedCase(preset="default", group="point"),
    SpeedCase(preset="default", group="ml1"),
)


@dataclass(frozen=True, kw_only=True)
class AlgorithmEntry(Generic[Config, Made]):
    """An algorithm."""

    name: str
    label: str
    config: type[Config]
    make: Callable[[Config, Spec], Made]
    preset: Preset
    """(name of the preset, what kind of family): the configuration of a run."""
    offers: frozenset[str] = frozenset()
    """What its agents can do for an adaptation method."""
    has_judge: bool = False
    """Whether its configuration has a judge, so that it offers what any judge does."""
    default_methods: tuple[str, ...] = PAPER_METHODS
    operations: Callable[[Made], int | None] | None = None
    """(algorithm, in a phase): floating-point operations of an update, where they are counted."""
    speed_cases: tuple[SpeedCase, ...] = DEFAULT_SPEED_CASES
    phase_setting: str = ""
    """The setting that says how long the phases before the last take, if there are any."""
    version: int | None = None
    """Raised whenever results change; without one, it is identified by its source."""


@dataclass(frozen=True, kw_only=True)
class ObjectiveEntry(Generic[Config]):
    """What trains a context encoder, and so an algorithm."""

    name: str
    label: str
    config: type[Config]
    """A subclass of `ContextConfig` whose `kind` is the name; its own fields have defaults."""
    make: Callable[[Config, Spec], Objective]
    """The objective of such a configuration."""
    needs_critic: bool = False
    """Whether it trains through the learner's critic."""
    preset: Preset | None = None
    """As an algorithm's; without one, that of all context-based algorithms."""
    default_methods: tuple[str, ...] = PAPER_METHODS
    speed_cases: tuple[SpeedCase, ...] = DEFAULT_SPEED_CASES
    phase_setting: str = ""
    """The setting that says how long the phases before the last take, if there are any."""
    version: int | None = None
    """Raised whenever results change; without one, it is identified by its source."""


AnyAlgorithm = AlgorithmEntry[Any, Any]
AnyObjective = ObjectiveEntry[Any]

OBJECTIVES: Registry[AnyObjective] = Registry(
    "objective",
    "objectives",
    lambda entry: isinstance(entry, ObjectiveEntry),
    check=partial(check_configured, AlgorithmConfig),
    built_in=("idaq.algos.focal:ENTRY", "idaq.algos.op_cl:ENTRY"),
    feeds="algorithm",
)


ALGORITHMS: Registry[AnyAlgorithm] = Registry(
    "algorithm",
    "algorithms",
    lambda entry: isinstance(entry, AlgorithmEntry),
    check=partial(check_configured, AlgorithmConfig),
    built_in=("idaq.algos.macaw.entry:ENTRY", "idaq.algos.borel.entry:ENTRY"),
    derived="idaq.algos.context_based:OF_OBJECTIVES",
)


def default_algorithm() -> str:
    """The algorithm where none is named: the first of all."""
    return ALGORITHMS.built_in_names()[0]


def label_of(algorithm: str) -> str:
    """What tables and figures call an algorithm; its name if it is not installed."""
    return ALGORITHMS[algorithm].label if algorithm in ALGORITHMS else algorithm


def logs_of(algorithm: Algorithm, agent: PyTree) -> Logs | None:
    """What an agent remembers of the logs; None where it remembers nothing."""
    entry = ALGORITHMS.get(algorithm.name)
    if entry is None or LOGS not in entry.offers:
        return None
    return cast(RemembersLogs, algorithm).logs(agent)


def version_of(algorithm: str) -> int:
    """An algorithm's version; 0 for one that is identified by its source (`components_of`)."""
    return ALGORITHMS.get_entry(algorithm).version or 0


def components_of(config: AlgorithmConfig) -> dict[str, Entry]:
    """The entries, by "kind name", of all that trains and that a run must name.

    That is what comes from outside the package. The algorithm's version covers what comes with it;
    but a part whose own version was raised is named as well, and so are all parts of an algorithm
    from outside, as idaq's versions do not cover that.
    """
    objective = OBJECTIVES.get(config.kind)
    entry: Entry = objective or ALGORITHMS.get_entry(config.kind)
    registry: Registry[Any] = OBJECTIVES if objective else ALGORITHMS
    is_own = registry.is_built_in(config.kind)
    found = {} if is_own else {f"{registry.kind} {config.kind}": entry}
    for part in _parts_of(config):
        parts = registry_of(part.registry)
        if not is_own or is_named(parts, part.kind):
            found[f"{part.registry} {part.kind}"] = parts[part.kind]
    return found


def is_named(registry: Registry[Any], name: str) -> bool:
    """Whether what uses an entry names it: one from outside, or of a version other than 1."""
    return not registry.is_built_in(name) or registry[name].version != FIRST_VERSION


def comes_with_idaq(component: str) -> bool:
    """Whether a component, "kind name", comes with the package."""
    kind, _, name = component.rpartition(" ")
    return kind in PLACES and registry_of(kind).is_built_in(name)


def _parts_of(config: Any) -> Iterator[Component]:
    """The components that a configuration holds, and those that they hold."""
    for each in fields(config):
        part = getattr(config, each.name)
        if isinstance(part, Component):
            yield part
        if is_dataclass(part):
            yield from _parts_of(part)


def make_algorithm(config: AlgorithmConfig, spec: Spec) -> Algorithm:
    """The algorithm of a configuration."""
    made: Algorithm = ALGORITHMS.get_entry(config.kind).make(config, spec)
    return made
