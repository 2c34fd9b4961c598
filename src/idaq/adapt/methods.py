"""Adaptation methods by name, and which algorithm's agents can adapt with which.

A method says what it *needs*, an algorithm what it *offers*; comparing the two sets says which fit.
Every uncertainty makes a method of its own: IDAQ with that uncertainty.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from idaq.adapt.base import Adapter
from idaq.adapt.expert_context import ExpertContext
from idaq.adapt.fine_tuning import FineTuning, GradientAlgorithm
from idaq.adapt.idaq import Idaq
from idaq.adapt.posterior import Belief, Posterior
from idaq.adapt.search import SEARCHES
from idaq.adapt.uncertainty import UNCERTAINTIES, Uncertainty
from idaq.algos.base import Algorithm
from idaq.algos.entries import ALGORITHMS, BELIEF, EMBEDDING, GRADIENT_STEPS
from idaq.errors import IdaqError
from idaq.judges.base import JUDGES
from idaq.registry import Entry, Registry
from idaq.settings import AdaptConfig

IDAQ_PREFIX = "idaq-"


@dataclass(frozen=True, kw_only=True)
class MethodEntry:
    """A method."""

    name: str
    label: str
    """In tables and figures; `{algorithm}` stands for the algorithm's own label."""
    make: Callable[[AdaptConfig, Algorithm], Adapter]
    needs: frozenset[str] = frozenset()
    """What an algorithm must offer."""
    is_given_logs: bool = False
    """Whether it is given logged episodes of the test task."""
    judges: str | None = None
    """The uncertainty that it judges episodes by, if it does."""


def _zero(config: AdaptConfig, algorithm: Algorithm) -> Posterior:
    return Posterior(replace(config, reference="zero"), algorithm)


def _fine_tuning(config: AdaptConfig, algorithm: Algorithm) -> FineTuning:
    return FineTuning(config, cast(GradientAlgorithm, algorithm))


ENTRIES = (
    MethodEntry(name="posterior", label="posterior ({algorithm})", make=Posterior),
    MethodEntry(
        name="posterior-zero", label="posterior-zero", make=_zero, needs=frozenset({EMBEDDING})
    ),
    MethodEntry(
        name="expert-context", label="expert context", make=ExpertContext, is_given_logs=True
    ),
    MethodEntry(
        name="fine-tuning",
        label="fine-tuning",
        make=_fine_tuning,
        needs=frozenset({GRADIENT_STEPS}),
    ),
    MethodEntry(name="belief", label="belief", make=Belief, needs=frozenset({BELIEF})),
)


def _idaq(uncertainty: Uncertainty, config: AdaptConfig, algorithm: Algorithm) -> Idaq:
    return Idaq(config, algorithm, uncertainty)


def by_uncertainty() -> Iterator[MethodEntry]:
    """IDAQ with every uncertainty."""
    for uncertainty in UNCERTAINTIES.values():
        yield MethodEntry(
            name=IDAQ_PREFIX + uncertainty.name,
            label=f"IDAQ, {uncertainty.label}",
            make=partial(_idaq, uncertainty),
            needs=frozenset({uncertainty.reads} if uncertainty.reads else ()),
            judges=uncertainty.name,
        )


METHODS: Registry[MethodEntry] = Registry(
    "adaptation method",
    "methods",
    lambda entry: isinstance(entry, MethodEntry),
    built_in=("idaq.adapt.methods:ENTRIES",),
    derived="idaq.adapt.methods:by_uncertainty",
)


def make_adapter(method: str, config: AdaptConfig, algorithm: Algorithm) -> Adapter:
    """The adapter of a method."""
    return METHODS.get_entry(method).make(config, algorithm)


def components_of_method(method: str, config: AdaptConfig) -> dict[str, Entry]:
    """The entries of a method's uncertainty and searches that come from outside the package."""
    uncertainty = METHODS.get_entry(method).judges
    named = ((SEARCHES, config.reference), (SEARCHES, config.iterate), (UNCERTAINTIES, uncertainty))
    return {
        f"{registry.kind} {name}": registry[name]
        for registry, name in named
        if name is not None and not registry.is_built_in(name)
    }


def methods_of(algorithm: str) -> tuple[str, ...]:
    """The methods that an algorithm's agents can adapt with, given the judges that they need."""
    entry = ALGORITHMS.get_entry(algorithm)
    offers = entry.offers | (set(JUDGES) if entry.has_judge else set())
    return tuple(name for name, method in METHODS.items() if method.needs <= offers)


def check_method_of(algorithm: str, method: str) -> None:
    """Refuse a name that is no method, or no method of the algorithm."""
    METHODS.get_entry(method)
    if method not in methods_of(algorithm):
        raise IdaqError(
            f"'{method}' is no method of the algorithm '{algorithm}'.",
            f"Choose from: {', '.join(methods_of(algorithm))}.",
        )


def judge_needed(method: str) -> str | None:
    """The judge that a method reads, if it reads one."""
    return next((need for need in METHODS.get_entry(method).needs if need in JUDGES), None)
