"""Methods by name."""

import re
from dataclasses import fields, replace
from typing import Any

import pytest

from idaq.adapt.expert_context import ExpertContext
from idaq.adapt.fine_tuning import FineTuning
from idaq.adapt.idaq import Idaq
from idaq.adapt.methods import (
    ALL_OPTIONS,
    METHODS,
    MethodEntry,
    check_method_of,
    components_of_method,
    judge_needed,
    make_adapter,
    methods_of,
    missing_judge,
)
from idaq.adapt.posterior import Belief, Posterior
from idaq.adapt.search import SEARCHES
from idaq.adapt.uncertainty import UNCERTAINTIES
from idaq.algos.entries import ALGORITHMS, PAPER_METHODS
from idaq.errors import IdaqError
from idaq.registry import Registry
from idaq.runs.resolve import resolve
from idaq.settings import AdaptConfig
from tests import tiny
from tests.fakes import ActsAsBelieved

READ_LOGS = {
    "idaq-relative-return": "IDAQ, return relative to its logs",
    "idaq-distance-to-logs": "IDAQ, distance to the logs",
    "idaq-unlikeness": "IDAQ, unlikeness to the logs",
    "idaq-return-and-unlikeness": "IDAQ, return and unlikeness",
}


def test_every_method_makes_an_adapter() -> None:
    kinds = {name: type(make_adapter(name, AdaptConfig(), ActsAsBelieved())) for name in METHODS}
    assert kinds == {
        "idaq-return": Idaq,
        "idaq-prediction-error": Idaq,
        "idaq-prediction-variance": Idaq,
        **dict.fromkeys(READ_LOGS, Idaq),
        "posterior": Posterior,
        "posterior-zero": Posterior,
        "expert-context": ExpertContext,
        "fine-tuning": FineTuning,
        "belief": Belief,
    }
    others = {"posterior-zero", *READ_LOGS}
    assert set(PAPER_METHODS) == set(methods_of("focal")) - others


def test_expert_context_alone_is_given_logs() -> None:
    assert [name for name, entry in METHODS.items() if entry.is_given_logs] == ["expert-context"]


def test_what_they_are_called() -> None:
    labels = {
        "idaq-return": "IDAQ, return",
        "idaq-prediction-error": "IDAQ, prediction error",
        "idaq-prediction-variance": "IDAQ, prediction variance",
        **READ_LOGS,
        "posterior": "posterior ({algorithm})",
        "posterior-zero": "posterior-zero",
        "expert-context": "expert context",
        "fine-tuning": "fine-tuning",
        "belief": "belief",
    }
    assert {name: entry.label for name, entry in METHODS.items()} == labels
    searches = {
        "farthest": ("farthest of some", True, False),
        "farthest-first": ("farthest first", True, False),
        "prior": ("at random", True, False),
        "zero": ("no hypothesis", True, False),
        "posterior": ("posterior", False, True),
        "untried": ("nearest untried", False, True),
        "search": ("far, then near", False, True),
        "bayesian": ("Bayesian", True, True),
    }
    assert searches == {
        name: (entry.label, entry.first is not None, entry.next is not None)
        for name, entry in SEARCHES.items()
    }
    assert {entry.version for entry in SEARCHES.values()} == {1}
    assert {entry.version for entry in UNCERTAINTIES.values()} == {1}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_methods_of_an_algorithm(algorithm: str) -> None:
    own = methods_of(algorithm)
    assert set(ALGORITHMS[algorithm].default_methods) <= set(own)
    assert ("fine-tuning" in own) == (algorithm == "macaw")
    assert ("belief" in own) == (algorithm == "borel")
    has_models = algorithm in ("focal", "op-cl")
    assert any(judge_needed(name) for name in own) == has_models
    for name in METHODS:
        if name in own:
            check_method_of(algorithm, name)
        else:
            with pytest.raises(IdaqError, match=f"no method of the algorithm '{algorithm}'"):
                check_method_of(algorithm, name)
    with pytest.raises(IdaqError, match="no adaptation method"):
        check_method_of(algorithm, "idaq-retrun")


@pytest.mark.parametrize("name", UNCERTAINTIES)
def test_uncertainty_is_that_of_the_name(name: str) -> None:
    adapter = make_adapter(f"idaq-{name}", AdaptConfig(), ActsAsBelieved())
    assert isinstance(adapter, Idaq)
    assert adapter.uncertainty is UNCERTAINTIES[name]


def test_only_prediction_needs_models() -> None:
    needy = {name for name in METHODS if judge_needed(name)}
    assert needy == {"idaq-prediction-error", "idaq-prediction-variance"}


def test_posterior_zero_only_changes_the_reference() -> None:
    config = AdaptConfig(num_reference_episodes=3, reference="prior")
    plain, zero = (
        make_adapter(name, config, ActsAsBelieved()) for name in ("posterior", "posterior-zero")
    )
    assert isinstance(plain, Posterior)
    assert isinstance(zero, Posterior)
    assert (plain.config.reference, zero.config.reference) == ("prior", "zero")
    assert plain.num_episodes == zero.num_episodes == 13


def test_adapters_are_hashable_and_equal_by_value() -> None:
    """They are static arguments of compiled programs: an equal one must not compile again."""
    for name in METHODS:
        first, second = (make_adapter(name, AdaptConfig(), ActsAsBelieved()) for _ in range(2))
        assert first == second
        assert hash(first) == hash(second)


@pytest.mark.parametrize("name", ["idaq-returns", "posteriour", "", "return"])
def test_unknown_method_is_refused(name: str) -> None:
    with pytest.raises(IdaqError, match="no adaptation method"):
        METHODS.get_entry(name)


def test_near_miss_gets_a_suggestion() -> None:
    with pytest.raises(IdaqError, match="Did you mean 'idaq-return'"):
        METHODS.get_entry("idaq-returns")


def test_the_origin_is_no_hypothesis_of_networks() -> None:
    config = resolve("default", "point-robot", "macaw")
    made = ALGORITHMS["macaw"].make(config.algorithm, tiny.SPEC)
    with pytest.raises(IdaqError, match=r"`adapt\.reference` is 'zero'.*'macaw' does not offer"):
        make_adapter("posterior", replace(config.adapt, reference="zero"), made)
    make_adapter("idaq-return", config.adapt, made)


def test_an_algorithm_may_offer_what_a_judge_does() -> None:
    own = replace(ALGORITHMS["macaw"], name="mine", offers=frozenset({"ensemble"}))
    with ALGORITHMS.registered(own):
        assert missing_judge("idaq-prediction-error", "mine", None) is None
    assert missing_judge("idaq-prediction-error", "macaw", None) == "ensemble"


def test_what_makes_a_difference_to_a_method() -> None:
    budget = {"num_reference_episodes", "num_iterative_episodes"}
    tries = budget | {"episodes_per_hypothesis", "reference", "num_candidates"}
    idaq = tries | {"keep_percent", "iterate", "accept", "final", "stop_below"}
    uses = {
        "idaq-return": idaq,
        "idaq-prediction-error": idaq,
        "idaq-prediction-variance": idaq,
        **dict.fromkeys(READ_LOGS, idaq),
        "posterior": tries,
        "posterior-zero": tries - {"reference", "num_candidates"},
        "expert-context": {"num_expert_episodes"},
        "fine-tuning": budget | {"fine_tuning_steps", "fine_tuning_rate"},
        "belief": budget,
    }
    assert {name: entry.uses for name, entry in METHODS.items()} == uses
    assert {field.name for field in fields(AdaptConfig)} == ALL_OPTIONS
    mine = MethodEntry(name="mine", label="mine", make=ExpertContext)
    assert mine.uses == ALL_OPTIONS, "unless it says otherwise"
    assert {entry.version for entry in METHODS.values()} == {1}


@pytest.mark.parametrize(
    ("option", "name", "message"),
    [
        ("reference", "fartest", "'fartest'.*Did you mean 'farthest'.*one of farthest, "),
        ("reference", "untried", "'untried', which is no search for that stage"),
        (
            "iterate",
            "farthest",
            "'farthest', which is no search.*one of posterior, untried",
        ),
    ],
)
def test_a_search_is_for_its_stage(option: str, name: str, message: str) -> None:
    changes: Any = {option: name}
    config = AdaptConfig(**changes)
    with pytest.raises(IdaqError, match=rf"`adapt\.{option}` is {message}"):
        make_adapter("idaq-return", config, ActsAsBelieved())


def test_searches_are_part_of_an_adapter() -> None:
    """So that a compiled program of one search is never taken for another's."""
    config = AdaptConfig(reference="prior", iterate="untried")
    for name in ("idaq-return", "posterior", "belief"):
        made: Any = make_adapter(name, config, ActsAsBelieved())
        assert made.searches.reference is SEARCHES["prior"]
        assert made.searches.iterate is SEARCHES["untried"]
        other = replace(SEARCHES["untried"], next=SEARCHES["search"].next)
        with SEARCHES.registered(other):
            assert make_adapter(name, config, ActsAsBelieved()) != made


def test_components_from_outside() -> None:
    config = AdaptConfig()
    assert components_of_method("idaq-return", config) == {}
    uncertainty = replace(UNCERTAINTIES["return"], name="mine", version=None)
    search = replace(SEARCHES["untried"], name="mine", version=None)
    method = replace(METHODS["posterior"], name="mine", version=None)
    with (
        UNCERTAINTIES.registered(uncertainty),
        SEARCHES.registered(search),
        METHODS.registered(method),
    ):
        found = components_of_method("idaq-mine", replace(config, iterate="mine"))
        assert found == {"uncertainty mine": uncertainty, "search mine": search}
        assert components_of_method("mine", config) == {"adaptation method mine": method}
    judging = replace(METHODS["idaq-return"], name="mine", version=None)
    with METHODS.registered(judging):
        assert components_of_method("mine", config) == {"adaptation method mine": judging}


@pytest.mark.parametrize(
    ("registry", "name", "method"),
    [
        (METHODS, "posterior", "posterior"),
        (UNCERTAINTIES, "return", "idaq-return"),
        (SEARCHES, "farthest", "idaq-return"),
        (SEARCHES, "posterior", "posterior"),
        (METHODS, "idaq-return", "idaq-return"),
    ],
)
def test_what_comes_with_the_package_counts_from_its_second_version_on(
    registry: Registry[Any], name: str, method: str
) -> None:
    assert components_of_method(method, AdaptConfig()) == {}
    newer = replace(registry[name], version=2)
    with registry.registered(newer):
        found = components_of_method(method, AdaptConfig())
        assert found == {f"{registry.kind} {name}": newer}


def test_an_uncertainty_that_reads_an_unknown_judge() -> None:
    lost = replace(UNCERTAINTIES["return"], name="q", reads="nope")
    message = (
        "The uncertainty 'q' reads the judge 'nope', which is not registered. Register that judge, "
        "or read one of these: ensemble."
    )
    with UNCERTAINTIES.registered(lost):
        for algorithm in ("focal", "macaw"):
            with pytest.raises(IdaqError, match=re.escape(message)):
                check_method_of(algorithm, "idaq-q")
        own = replace(ALGORITHMS["macaw"], name="mine", offers=frozenset({"nope"}))
        with ALGORITHMS.registered(own):
            check_method_of("mine", "idaq-q")
