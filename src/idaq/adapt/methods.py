"""Adaptation methods by name, and which algorithm's agents can adapt with which.

A method says what it *needs*, an algorithm what it *offers*; comparing the two sets says which fit.
Every uncertainty makes a method of its own: IDAQ with that uncertainty.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, cast

from idaq.adapt.base import Adapter
from idaq.adapt.expert_context import ExpertContext
from idaq.adapt.fine_tuning import FineTuning, GradientAlgorithm
from idaq.adapt.idaq import Idaq
from idaq.adapt.posterior import Belief, Posterior
from idaq.adapt.search import SEARCHES, Searches
from idaq.adapt.uncertainty import UNCERTAINTIES, Uncertainty
from idaq.algos.base import Algorithm
from idaq.algos.entries import (
    ALGORITHMS,
    BELIEF,
    EMBEDDING,
    FIRST_VERSION,
    GRADIENT_STEPS,
    LOGS,
    AnyAlgorithm,
    is_named,
)
from idaq.errors import IdaqError
from idaq.judges.base import JUDGES
from idaq.registry import Derived, Entry, Registry
from idaq.settings import AdaptConfig

IDAQ_PREFIX = "idaq-"

# which options of `AdaptConfig` make a difference to methods
BUDGET = frozenset({"num_reference_episodes", "num_iterative_episodes"})
TRIES = BUDGET | {"episodes_per_hypothesis", "reference", "num_candidates"}
JUDGES_EPISODES = TRIES | {"keep_percent", "iterate", "accept", "final", "stop_below"}
ALL_OPTIONS = frozenset(field.name for field in fields(AdaptConfig))


@dataclass(frozen=True, kw_only=True)
class MethodEntry:
    """A method."""

    name: str
    label: str
    """In tables and figures; `{algorithm}` stands for the algorithm's own label."""
    make: Callable[[AdaptConfig, Algorithm], Adapter]
    needs: frozenset[str] = frozenset()
    """What an algorithm must offer."""
    uses: frozenset[str] = ALL_OPTIONS
    """The options that make a difference to it."""
    is_given_logs: bool = False
    """Whether it is given logged episodes of the test task."""
    judges: str | None = None
    """The uncertainty that it judges episodes by, if it does."""
    version: int | None = None
    """Raised whenever results change; without one, the method is identified by its source."""


def _posterior(config: AdaptConfig, algorithm: Algorithm) -> Posterior:
    return Posterior(config, algorithm, Searches.of(config))


def _zero(config: AdaptConfig, algorithm: Algorithm) -> Posterior:
    return _posterior(replace(config, reference="zero"), algorithm)


def _belief(config: AdaptConfig, algorithm: Algorithm) -> Belief:
    return Belief(config, algorithm, Searches.of(config))


def _fine_tuning(config: AdaptConfig, algorithm: Algorithm) -> FineTuning:
    return FineTuning(config, cast(GradientAlgorithm, algorithm))


ENTRIES = (
    MethodEntry(
        name="posterior", label="posterior ({algorithm})", version=1, make=_posterior, uses=TRIES
    ),
    MethodEntry(
        name="posterior-zero",
        label="posterior-zero",
        version=1,
        make=_zero,
        needs=frozenset({EMBEDDING}),
        uses=TRIES - {"reference", "num_candidates"},
    ),
    MethodEntry(
        name="expert-context",
        label="expert context",
        version=1,
        make=ExpertContext,
        uses=frozenset({"num_expert_episodes"}),
        is_given_logs=True,
    ),
    MethodEntry(
        name="fine-tuning",
        label="fine-tuning",
        version=1,
        make=_fine_tuning,
        needs=frozenset({GRADIENT_STEPS}),
        uses=BUDGET | {"fine_tuning_steps", "fine_tuning_rate"},
    ),
    MethodEntry(
        name="belief",
        label="belief",
        version=1,
        make=_belief,
        needs=frozenset({BELIEF}),
        uses=BUDGET,
    ),
)


def _idaq(uncertainty: Uncertainty, config: AdaptConfig, algorithm: Algorithm) -> Idaq:
    return Idaq(config, algorithm, uncertainty, Searches.of(config))


def by_uncertainty(uncertainty: Uncertainty) -> MethodEntry:
    """IDAQ with an uncertainty."""
    return MethodEntry(
        name=IDAQ_PREFIX + uncertainty.name,
        label=f"IDAQ, {uncertainty.label}",
        version=1,
        make=partial(_idaq, uncertainty),
        needs=frozenset({uncertainty.reads} if uncertainty.reads else ()),
        uses=JUDGES_EPISODES,
        judges=uncertainty.name,
    )


OF_UNCERTAINTIES = Derived(UNCERTAINTIES, by_uncertainty, IDAQ_PREFIX)

METHODS: Registry[MethodEntry] = Registry(
    "adaptation method",
    "methods",
    lambda entry: isinstance(entry, MethodEntry),
    built_in=("idaq.adapt.methods:ENTRIES",),
    derived="idaq.adapt.methods:OF_UNCERTAINTIES",
)


def make_adapter(method: str, config: AdaptConfig, algorithm: Algorithm) -> Adapter:
    """The adapter of a method, or an error where a search that it uses does not fit."""
    entry, searches = METHODS.get_entry(method), Searches.of(config)
    for option in sorted(entry.uses & {"reference", "iterate"}):
        search = getattr(searches, option)
        for need in search.needs:
            if not _offers(ALGORITHMS.get_entry(algorithm.name), need):
                raise IdaqError(
                    f"`adapt.{option}` is '{search.name}', which needs what '{algorithm.name}' "
                    f"does not offer: {need}.",
                    "Choose another search.",
                )
    return entry.make(config, algorithm)


def components_of_method(method: str, config: AdaptConfig) -> dict[str, Entry]:
    """The entries, by "kind name", that results must name: a method, its uncertainty and searches.

    As for algorithms, what comes with the package is named from its second version on. A method
    that is made from an uncertainty is named by that.
    """
    entry = METHODS.get_entry(method)
    is_derived = method not in METHODS.added and method in METHODS.derived()
    named = None if is_derived and entry.version == FIRST_VERSION else method
    parts: list[tuple[Registry[Any], str | None]] = [(METHODS, named)]
    parts += [(SEARCHES, config.reference), (SEARCHES, config.iterate)]
    parts.append((UNCERTAINTIES, entry.judges))
    return {
        f"{registry.kind} {name}": registry[name]
        for registry, name in parts
        if name is not None and is_named(registry, name)
    }


def methods_of(algorithm: str) -> tuple[str, ...]:
    """The methods that an algorithm's agents can adapt with, given the judges that they need."""
    return tuple(name for name in METHODS if _fits(algorithm, name))


def check_method_of(algorithm: str, method: str) -> None:
    """Refuse a name that is no method, or no method of the algorithm."""
    judges = METHODS.get_entry(method).judges
    uncertainty = UNCERTAINTIES.get(judges) if judges else None
    reads = uncertainty.reads if uncertainty else None
    if (
        reads
        and reads != LOGS
        and reads not in JUDGES
        and not _offers(ALGORITHMS.get_entry(algorithm), reads)
    ):
        raise IdaqError(
            f"The uncertainty '{judges}' reads the judge '{reads}', which is not registered.",
            f"Register that judge, or read one of these: {', '.join(JUDGES)}.",
        )
    if not _fits(algorithm, method):
        raise IdaqError(
            f"'{method}' is no method of the algorithm '{algorithm}'.",
            f"Choose from: {', '.join(methods_of(algorithm))}.",
        )


def _fits(algorithm: str, method: str) -> bool:
    entry = ALGORITHMS.get_entry(algorithm)
    return all(_offers(entry, need) for need in METHODS.get_entry(method).needs)


def _offers(algorithm: AnyAlgorithm, need: str) -> bool:
    return need in algorithm.offers or (algorithm.has_judge and need in JUDGES)


def missing_judge(method: str, algorithm: str, judge: str | None) -> str | None:
    """The judge that a method needs and a run lacks; `judge` is the judge that the run trains."""
    there = {judge, *ALGORITHMS.get_entry(algorithm).offers}
    needs = METHODS.get_entry(method).needs - there
    return next((need for need in sorted(needs) if need in JUDGES), None)


def judge_needed(method: str) -> str | None:
    """The judge that a method reads, if it reads one."""
    return next((need for need in METHODS.get_entry(method).needs if need in JUDGES), None)
