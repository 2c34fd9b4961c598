"""Configurations to JSON and back, and overrides by dotted name."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idaq.algos.entries import ALGORITHMS
from idaq.algos.focal import FocalConfig
from idaq.algos.presets import PRESETS
from idaq.cli.flags import in_flags
from idaq.cli.train import Train
from idaq.config import from_dict, override, to_dict
from idaq.envs import FAMILIES, POINT_FAMILIES
from idaq.errors import IdaqError
from idaq.judges.ensemble import EnsembleConfig
from idaq.learners import bc
from idaq.learners.base import LEARNERS, LearnerEntry
from idaq.learners.sac_brac import SacBracConfig
from idaq.learners.td3_bc import Td3BcConfig
from idaq.runs.resolve import resolve, with_ensemble_size
from idaq.settings import AdaptConfig, RunConfig, TrainConfig

RUN = RunConfig(
    algorithm=FocalConfig(learner=Td3BcConfig(), judge=EnsembleConfig()),
    train=TrainConfig(),
    adapt=AdaptConfig(),
)


def through_json(config: Any) -> Any:
    return from_dict(type(config), json.loads(json.dumps(to_dict(config))))


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_preset_survives_json(preset: str, family: str, algorithm: str) -> None:
    config = resolve(preset, family, algorithm)
    assert config.algorithm.kind == algorithm
    again = through_json(config)
    assert again == config
    assert hash(again) == hash(config)


learners = st.one_of(
    st.builds(
        SacBracConfig,
        hidden=st.lists(st.integers(1, 64), min_size=1, max_size=3).map(tuple),
        divergence=st.sampled_from(["kl-dual", "none"]),
        discount=st.floats(0.0, 1.0),
    ),
    st.builds(Td3BcConfig, bc_weight=st.floats(0.0, 10.0)),
)


@given(
    st.builds(
        FocalConfig,
        latent_dim=st.integers(1, 50),
        normalise=st.booleans(),
        learner=learners,
        judge=st.none() | st.builds(EnsembleConfig, size=st.integers(2, 8)),
    )
)
def test_any_configuration_survives_json(config: FocalConfig) -> None:
    assert through_json(config) == config


def test_configurations_are_frozen_and_keyword_only() -> None:
    for cls in (FocalConfig, SacBracConfig, Td3BcConfig, EnsembleConfig, TrainConfig, AdaptConfig):
        make: Any = cls
        made = make()
        name = dataclasses.fields(made)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, name, None)
        with pytest.raises(TypeError):
            make(1)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"typo": 1}, "unknown keys .*typo"),
        ({"latent_dim": None}, "latent_dim"),
        ({"latent_dim": 2.5}, "latent_dim"),
        ({"latent_dim": True}, "latent_dim"),
        ({"normalise": 1}, "normalise"),
        ({"encoder_hidden": 200}, "encoder_hidden"),
        ({"encoder_hidden": [200, "x"]}, "encoder_hidden"),
        ({"learner": {"kind": "ppo"}}, "kind"),
        ({"learner": "td3-bc"}, "kind"),
    ],
)
def test_wrong_values_are_refused_by_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(IdaqError, match=named):
        from_dict(FocalConfig, to_dict(FocalConfig()) | change)


def test_a_missing_key_is_refused_by_name() -> None:
    values = to_dict(FocalConfig())
    del values["metric_weight"]
    with pytest.raises(IdaqError, match=r"lacks .*metric_weight"):
        from_dict(FocalConfig, values)


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("algorithm.latent_dim=5", 5),
        ("algorithm.encoder_hidden=[64,32]", (64, 32)),
        ("algorithm.learner.discount=0.9", 0.9),
        ("algorithm.learner.discount=1", 1.0),
        ("algorithm.judge.size=8", 8),
        ("algorithm.judge=null", None),
        ("algorithm.normalise=true", True),
        ("adapt.final=best", "best"),
        ("train.num_updates=7", 7),
    ],
)
def test_override(assignment: str, value: Any) -> None:
    changed: Any = override(RUN, assignment)
    place: Any = changed
    for name in assignment.partition("=")[0].split("."):
        place = getattr(place, name)
    assert place == value
    assert type(place) is type(value)
    assert through_json(RUN) == RUN


@pytest.mark.parametrize(
    "assignment",
    [
        "algorithm.latent_dim",
        "algorithm.latentdim=5",
        "algorithm.latent_dim=five",
        "algorithm.latent_dim.x=5",
        "adapt.final=worst",
        "adapt.keep_percent=0",
        "train.num_updates=0",
        "nothing=1",
    ],
)
def test_a_wrong_override_is_refused(assignment: str) -> None:
    with pytest.raises(IdaqError):
        override(RUN, assignment)


@pytest.mark.parametrize("setting", ["algorithm.objective.kind", "algorithm.objective"])
def test_an_objective_is_no_setting(setting: str) -> None:
    message = f"There is no setting '{setting}'. An objective is chosen as the algorithm: "
    with pytest.raises(IdaqError) as caught:
        override(RUN, f"{setting}=club")
    assert str(caught.value) == f"{message}`algorithm=club`."
    assert in_flags(str(caught.value), Train) == f"{message}--algorithm club."


def test_learner_can_be_replaced_as_a_whole() -> None:
    values = json.dumps(to_dict(SacBracConfig(divergence="none")))
    changed: Any = override(RUN, f"algorithm.learner={values}")
    assert changed.algorithm.learner == SacBracConfig(divergence="none")


def test_shared_settings_are_kept_also_if_types_are_named_by_strings() -> None:
    """As `from __future__ import annotations` makes them."""
    namespace: dict[str, Any] = {}
    source = """from __future__ import annotations
from dataclasses import dataclass
from idaq.learners.base import LearnerConfig

@dataclass(frozen=True, kw_only=True)
class Mine(LearnerConfig):
    kind: str = "mine"
    hidden: tuple[int, ...] = (1, 2)
    discount: float = 0.9
"""
    exec(source, namespace)
    mine = LearnerEntry(**{**vars(bc.ENTRY), "name": "mine", "config": namespace["Mine"]})
    with LEARNERS.registered(mine):
        config = override(resolve("default", "point-robot"), "algorithm.learner.discount=0.5")
        made: Any = override(config, "algorithm.learner.kind=mine").algorithm
    assert (made.learner.hidden, made.learner.discount) == ((64, 64), 0.5)


def test_ensemble_size() -> None:
    changed, without = (with_ensemble_size(RUN, size).algorithm for size in (7, 0))
    assert isinstance(changed, FocalConfig)
    assert changed.judge == EnsembleConfig(size=7)
    assert isinstance(without, FocalConfig)
    assert without.judge is None
    for size in (-1, 1):
        with pytest.raises(IdaqError, match=f"L is {size}"):
            with_ensemble_size(RUN, size)


def test_unknown_preset_and_family_are_refused() -> None:
    with pytest.raises(IdaqError, match="no preset 'best'"):
        resolve("best", "point-robot")
    with pytest.raises(IdaqError, match="'cheetah'"):
        resolve("paper", "cheetah")


def test_paper_preset_follows_the_papers_table() -> None:
    """Appendix C for the point environments, and no BRAC there as released."""
    for family in POINT_FAMILIES:
        config = resolve("paper", family)
        algorithm = config.algorithm
        assert isinstance(algorithm, FocalConfig)
        learner = algorithm.learner
        assert isinstance(learner, SacBracConfig)
        assert (algorithm.meta_batch_size, algorithm.batch_size) == (16, 256)
        assert (algorithm.latent_dim, algorithm.context_size) == (20, 1024)
        assert algorithm.encoder_hidden == learner.hidden == (200, 200, 200)
        assert (learner.discount, learner.reward_scale, learner.divergence) == (0.99, 100.0, "none")
        assert algorithm.judge == EnsembleConfig(size=4)
        assert not algorithm.normalise
        assert config.train.num_updates == 50_000
        adapt = config.adapt
        assert (adapt.num_reference_episodes, adapt.num_iterative_episodes) == (10, 10)
        assert (adapt.keep_percent, adapt.episodes_per_hypothesis) == (10.0, 1)
        assert (adapt.reference, adapt.num_candidates) == ("farthest", 20)
        assert (adapt.accept, adapt.final) == ("threshold", "posterior")


def test_a_component_of_another_kind_keeps_what_both_have() -> None:
    changed: Any = override(RUN, "algorithm.learner.kind=td3-bc")
    before: Any = RUN.algorithm
    learner = changed.algorithm.learner
    assert isinstance(learner, Td3BcConfig)
    assert (learner.hidden, learner.discount) == (
        before.learner.hidden,
        before.learner.discount,
    )
    assert override(changed, "algorithm.learner.kind=td3-bc") == changed
    with pytest.raises(IdaqError, match=r"no learner 'td3_bc'\. Did you mean 'td3-bc'"):
        override(RUN, "algorithm.learner.kind=td3_bc")


def test_settings_that_have_moved_are_set_by_their_first_names() -> None:
    for name in ("algorithm.fine_tuning_steps", "adapt.fine_tuning_steps"):
        changed: Any = override(RUN, f"{name}=7")
        assert changed.adapt.fine_tuning_steps == 7
    saved = to_dict(RUN)
    assert "fine_tuning_steps" not in saved["adapt"], "left out where it has its default"
    saved["algorithm"]["fine_tuning_steps"] = 9
    assert from_dict(RunConfig, saved).adapt.fine_tuning_steps == 9
    assert override(RUN, "algorithm.judge.size=3") == override(RUN, "algorithm.ensemble.size=3")
