"""What algorithms and objectives say of themselves, and what a configuration is made of."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from idaq.algos.borel.algorithm import BorelConfig
from idaq.algos.context_based import ContextBased
from idaq.algos.entries import (
    ALGORITHMS,
    DEFAULT_SPEED_CASES,
    OBJECTIVES,
    PAPER_METHODS,
    components_of,
    default_algorithm,
    label_of,
    make_algorithm,
    version_of,
)
from idaq.algos.focal import FocalConfig
from idaq.algos.macaw.inner import MacawConfig
from idaq.algos.op_cl import OpClConfig
from idaq.errors import IdaqError
from idaq.learners import bc
from idaq.learners.base import LEARNERS, AnyLearner, LearnerConfig, LearnerEntry
from idaq.runs.resolve import judge_kind, resolve, with_ensemble_size, without_judge
from tests import tiny

PAPER, MACAWS = set(PAPER_METHODS), {"idaq-return", "fine-tuning", "expert-context"}
SAID: dict[str, tuple[str, int, type, set[str], bool, set[str]]] = {
    "focal": ("FOCAL", 1, FocalConfig, {"embedding", "logs"}, True, PAPER),
    "op-cl": ("OP+CL", 1, OpClConfig, {"embedding", "logs"}, True, PAPER),
    "macaw": ("MACAW", 2, MacawConfig, {"gradient steps"}, False, MACAWS),
    "borel": ("BOReL", 1, BorelConfig, {"belief"}, False, {"belief", "expert-context"}),
}
SPEED_CASES = {  # preset, group and settings of what `idaq bench speed` measures
    "focal": ("paper ml1", "paper ml1 with models", "paper point", "default ml1", "default point"),
    "op-cl": ("paper ml1", "default ml1"),
    "macaw": ("paper ml1", "default ml1"),
    "borel": ("paper ml1", "paper point"),
}


def test_what_they_say() -> None:
    assert list(ALGORITHMS) == list(SAID)
    for name, (label, version, config, offers, has_judge, methods) in SAID.items():
        entry = ALGORITHMS[name]
        assert (entry.name, entry.label, entry.version) == (name, label, version)
        assert (entry.config, set(entry.offers), entry.has_judge) == (config, offers, has_judge)
        assert set(entry.default_methods) == methods
        assert (version_of(name), label_of(name)) == (version, label)
        assert entry.config.kind == name
    assert default_algorithm() == "focal"
    assert label_of("gone") == "gone"
    with pytest.raises(IdaqError, match="no algorithm 'gone'"):
        version_of("gone")


def test_what_is_measured() -> None:
    for name, expected in SPEED_CASES.items():
        found = tuple(
            f"{case.preset} {case.group}" + " with models" * case.with_judge
            for case in ALGORITHMS[name].speed_cases
        )
        assert found == expected
    assert [(case.preset, case.group) for case in DEFAULT_SPEED_CASES] == [
        ("default", "point"),
        ("default", "ml1"),
    ]


def test_what_cases_of_one_algorithm_are_called() -> None:
    """By their learners, where presets of one algorithm have several."""
    labels = [case.label for case in ALGORITHMS["focal"].speed_cases]
    assert labels == ["", "", "", "cloning", "TD3+BC"]


@dataclass(frozen=True, kw_only=True)
class OtherConfig(FocalConfig):
    kind: Any = "other"


@dataclass(frozen=True, kw_only=True)
class TheirsConfig(MacawConfig):
    kind: Any = "theirs"


def test_what_a_configuration_is_made_of() -> None:
    """Built-in parts are covered by a built-in algorithm's version; others are named."""
    other: Any = replace(OBJECTIVES["focal"], name="other", config=OtherConfig, version=None)
    theirs: Any = replace(ALGORITHMS["macaw"], name="theirs", config=TheirsConfig)
    learner: Any = replace(bc.ENTRY, name="mine", config=_mine())
    for config in (FocalConfig(), OpClConfig(), MacawConfig(), BorelConfig()):
        assert components_of(config) == {}
    with (
        OBJECTIVES.registered(other),
        ALGORITHMS.registered(theirs),
        LEARNERS.registered(learner),
    ):
        assert components_of(FocalConfig()) == {}
        parts = {"objective other": other, "learner sac-brac": LEARNERS["sac-brac"]}
        assert components_of(OtherConfig()) == parts
        assert components_of(TheirsConfig()) == {"algorithm theirs": theirs}
        both = OtherConfig(learner=_mine()())
        assert components_of(both) == {"objective other": other, "learner mine": learner}
        assert version_of("other") == 0
        made = make_algorithm(OtherConfig(), tiny.SPEC)
        assert isinstance(made, ContextBased)
        assert (made.name, made.entry) == ("other", other)
    with pytest.raises(IdaqError, match="no algorithm 'other'"):
        make_algorithm(OtherConfig(), tiny.SPEC)


def _mine() -> type[bc.BcConfig]:
    @dataclass(frozen=True, kw_only=True)
    class Mine(bc.BcConfig):
        kind: Any = "mine"

    return Mine


def test_the_size_of_the_ensemble() -> None:
    config = resolve("default", "point-robot")
    for size, message in ((-1, "Give 0"), (-7, "Give 0"), (1, "at least 2 models")):
        with pytest.raises(IdaqError, match=f"L is {size}.*{message}"):
            with_ensemble_size(config, size)
    three: Any = with_ensemble_size(config, 3)
    assert (three.algorithm.judge.size, three.algorithm.judge.hidden) == (3, (64, 64))
    none = with_ensemble_size(config, 0)
    assert judge_kind(none) is None
    assert none == without_judge(config) == without_judge(none)
    again: Any = with_ensemble_size(none, 2)
    assert (again.algorithm.judge.size, judge_kind(again)) == (2, "ensemble")
    macaw = resolve("default", "point-robot", "macaw")
    assert with_ensemble_size(macaw, 0) == macaw
    with pytest.raises(IdaqError, match="'macaw' trains no models"):
        with_ensemble_size(macaw, 4)


@dataclass(frozen=True, kw_only=True)
class Outer(LearnerConfig):
    """A learner that has a learner."""

    kind: Any = "outer"
    inner: LearnerConfig = bc.BcConfig()  # noqa: RUF009


@dataclass(frozen=True, kw_only=True)
class Inner(bc.BcConfig):
    kind: Any = "inner"


def test_parts_of_parts_are_part_of_the_identity() -> None:
    def entry(config: Any) -> AnyLearner:
        changes = {"name": config.kind, "label": config.kind, "config": config, "version": 1}
        return LearnerEntry(**{**vars(bc.ENTRY), **changes})

    with LEARNERS.registered(entry(Outer), entry(Inner)):
        config = resolve("default", "point-robot").algorithm
        found = components_of(replace(config, learner=Outer(inner=Inner())))  # type: ignore[type-var]
        assert list(found) == ["learner outer", "learner inner"]
